#!/bin/bash
# run.sh BINARY ARGS...: start a broker in the foreground; when it listens, say what to try.
set -u

# Ctrl-C reaches this too: it goes on until the broker has written its last line.
explain() {
	local line to='' first=1
	trap '' INT TERM HUP
	while IFS= read -r line; do
		echo "$line"
		case $line in
		'listening on unix:'*) to="-U ${line#listening on unix:}" ;;
		'listening on '*:*)
			to=${line#listening on }
			to="${to%:*} ${to##*:}"
			to=${to//[\[\]]/}
			;;
		'http on '[0-9[]*)
			printf '\nDashboard: http://%s/\n\n' "${line#http on }"
			continue
			;;
		*) continue ;;
		esac
		[ $first = 1 ] || continue
		first=0
		cat <<-HINTS

			The broker runs; Ctrl-C stops it. In another terminal:

			  nc $to        and type, for instance,  HELP

			  printf 'DECLARE queue hello\r\nQUIT\r\n'      | nc $to
			  printf 'PUB - hello 5\r\nworld\r\nQUIT\r\n'   | nc $to
			  printf 'GET hello ack=auto\r\nQUIT\r\n'       | nc $to

		HINTS
	done
}
exec "$@" > >(explain)
