#!/bin/bash
# session.sh [HOST [PORT]]: a conversation with a broker, through nc.
#
# Lines after "> " are sent; the broker sends the others. Ids and times are replaced:
# every run prints the same.
set -eu
host=${1:-127.0.0.1}
port=${2:-7310}

# Copies of the descriptors: bash closes those of a coprocess when it ends.
coproc nc "$host" "$port"
exec 3<&"${COPROC[0]}" 4>&"${COPROC[1]}"
trap 'exec 4>&-' EXIT

# One line of the broker, without its CR.
receive() {
	IFS= read -r -t 10 line <&3
	line=${line%$'\r'}
	sed -E 's/[0-9a-f]{16}/<id>/; s/ts=[0-9]+/ts=<time>/' <<<"$line"
}

# Send a request, with its payload if it has one, and show the reply. That is one
# line, and for GET also the messages that the line counts, each with its payload.
request() {
	printf '> %s\n' "$@"
	printf '%s\r\n' "$@" >&4
	receive
	if [[ $1 == GET* && $line == OK* ]]; then
		for ((i = 2 * ${line#OK }; i > 0; i--)); do
			receive
		done
	fi
}

request 'DECLARE queue example.shell durable=0 priority=strict'
request 'PUB - example.shell h:type=text/plain 5' 'hello'
request 'PUB - example.shell pri=9 6' 'urgent'
request 'PEEK no-such-queue'
request 'GET example.shell max=2'
request 'NACK 2'
request 'ACK 1'
request 'GET example.shell wait=5s'
request 'ACK 3'
request 'DELETE queue example.shell'
request 'QUIT'
