#!/bin/sh
# The first program of a container: a command of mqregistry (serve, sweep, console ...), or what is started in RocketMQ's
# own image: nameserver, sh mqnamesrv, ./mqnamesrv -c FILE, also by nohup, and by the path that it has in that image.
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
