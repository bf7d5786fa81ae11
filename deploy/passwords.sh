#!/bin/sh
# Chooses a password for each Redis user in this folder that has none yet. It writes the password's SHA-256 into users.acl
# and users-7.acl. It writes the password of mqregistry into mqregistry.env, and prints the others. A second run changes
# nothing.
set -eu
umask 077
cd "$(dirname "$0")"

put() { # FILE SED-EXPRESSION: the file keeps its mode and owner
    sed "$2" "$1" > "$1.new"
    cat "$1.new" > "$1"
    rm "$1.new"
}

for user in $(sed -n 's/.* #password-of-\([a-z]*\) .*/\1/p' users.acl users-7.acl | sort -u); do
    password=$(od -An -tx1 -N24 /dev/urandom | tr -d ' \n')
    if [ "$user" = mqregistry ]; then
        chmod 600 mqregistry.env
        put mqregistry.env "s/^MQREGISTRY_REDIS_PASSWORD=.*/MQREGISTRY_REDIS_PASSWORD=$password/"
        echo "mqregistry: in mqregistry.env"
    else
        echo "$user: $password"
    fi
    # The hash is written last: if the script was interrupted, it can run again.
    hash=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
    for file in users-7.acl users.acl; do
        put "$file" "s/#password-of-$user /#$hash /"
    done
done
