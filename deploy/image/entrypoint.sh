#!/bin/sh
# The first program of a container. It runs a command of mqregistry (serve, sweep, console ...), and accepts the commands
# that start the name server in RocketMQ's image: nameserver, sh mqnamesrv, ./mqnamesrv -c FILE, also with nohup, and with
# the path that mqnamesrv has in that image.
case ${1-} in
    nameserver | mqnamesrv | */mqnamesrv) shift && exec mqnamesrv "$@" ;;
    nohup) shift && exec "$0" "$@" ;;
    sh | bash | */sh | */bash)
        case ${2-} in
            mqnamesrv | */mqnamesrv) shift 2 && exec mqnamesrv "$@" ;;
            -c)
                shell=$1 text=$(printf %s "${3-}" | sed -E 's#(^|[[:space:];&|(])/[^[:space:];&|)]*/mqnamesrv#\1mqnamesrv#g')
                shift 3
                exec "$shell" -c "$text" "$@"
                ;;
        esac
        exec "$@"
        ;;
    *) exec mqregistry "$@" ;;
esac
