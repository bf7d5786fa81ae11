#!/bin/sh
# The first program of a container: a command of mqregistry (serve, sweep, console ...), or what is started in RocketMQ's
# own image (sh mqnamesrv, ./mqnamesrv -c FILE, nameserver).
case ${1-} in
    nameserver) shift && exec mqnamesrv "$@" ;;
    mqnamesrv | ./mqnamesrv | sh | bash | */sh | */bash) exec "$@" ;;
    *) exec mqregistry "$@" ;;
esac
