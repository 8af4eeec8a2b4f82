#!/bin/sh
# session.sh [HOST [PORT]]: a conversation with a broker, through nc.
#
# What is typed is shown behind "> "; the rest is the broker's. Ids and times
# are replaced, so that every run prints the same.
set -eu
host=${1:-127.0.0.1}
port=${2:-7310}

# Each request comes after the reply to the one before, as from a person.
# QUIT ends the session: the broker closes, and so nc ends.
session() {
	cat <<'END'
DECLARE queue example.shell durable=0 priority=strict
PUB - example.shell h:type=text/plain 5
hello
PUB - example.shell pri=9 6
urgent
PEEK no-such-queue
GET example.shell max=2
NACK 2
ACK 1
GET example.shell
ACK 3
DELETE queue example.shell
QUIT
END
}

session | sed 's/^/> /'
echo
session | nc "$host" "$port" | tr -d '\r' |
	sed -E 's/[0-9a-f]{16}/<id>/; s/ts=[0-9]+/ts=<time>/'
