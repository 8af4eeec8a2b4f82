#!/bin/bash
# run.sh BUILD SECONDS [FUZZER...]: run the fuzzers of a build, each for so long.
#
# The corpus grows in BUILD/corpus; it begins with the lines of tests/cases. An
# input that breaks something is left in BUILD/found, and belongs, when it is
# mended, into tests/fuzz/regressions/<fuzzer>, which every run begins with.
set -u
build=$1
seconds=$2
shift 2
corpus=$build/corpus
found=$build/found
status=0

# Read what is written in tests/cases with escapes; repetitions stay as they are.
requests() {
	local line number=0
	sed -n 's/^> //p' tests/cases/requests.txt | while IFS= read -r line; do
		number=$((number + 1))
		printf '%b' "$line" >"$1/case-$number"
	done
}

# A turn (0xff) after every step of the conversation, and pieces of it.
session() {
	local line
	while IFS= read -r line; do
		case $line in
		'>n '*) printf '%b\n' "${line#>n }" ;;
		'> '*) printf '%b\r\n' "${line#> }" ;;
		'<'*) printf '\xff' ;;
		esac
	done <tests/cases/session.txt >"$1/session"
	split -b 600 "$1/session" "$1/session-"
	# A publisher that is held back, by messages that another then takes.
	printf '%s\r\n%s\r\n%03000d\r\n%s\r\nx\r\n\xff\xfe%s\r\n\xff\xfe\xff' 'DECLARE queue q' \
		'PUB - q 3000' 0 'PUB - q 1' 'GET q max=9 ack=auto' >"$1/pressure"
}

# frames FILE DIR: each frame of the cases is followed by a turn; whole conversations,
# and pieces.
frames() {
	local line
	while IFS= read -r line; do
		case $line in
		'#'* | '') ;;
		*) printf '%b\xff' "$line" ;;
		esac
	done <"$1" >"$2/session"
	split -b 400 "$2/session" "$2/session-"
}

# The cases, and the requests of the document.
http() {
	local line method path body number=0
	frames tests/cases/http.txt "$1"
	sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}' docs/http.md | sed -n 's/^\$ curl //p' |
		while IFS= read -r line; do
			method=$(sed -n 's/.*-X \([A-Z]*\).*/\1/p' <<<"$line")
			path=$(sed -n "s#.*http://[^/]*\([^ ']*\).*#\1#p" <<<"$line")
			body=$(sed -n "s/.* -d '\(.*\)'.*/\1/p" <<<"$line")
			number=$((number + 1))
			printf '%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s: %d\r\n\r\n%s\xff' \
				"${method:-GET}" "$path" 'Content-Type: application/json' \
				Content-Length "${#body}" "$body" >"$1/document-$number"
		done
	cat "$1"/document-* >"$1/document"
}

# One request each, without those that repeat something.
http_heads() {
	local line number=0
	sed -n 's/^[0-9][0-9]* //p' tests/cases/http_requests.txt | grep -v '\\{' | while IFS= read -r line; do
		number=$((number + 1))
		printf '%b' "$line" >"$1/case-$number"
	done
}

seed() {
	mkdir -p "$corpus/$1" "$found"
	case $1 in
	fuzz_request) requests "$corpus/$1" ;;
	fuzz_line) session "$corpus/$1" ;;
	fuzz_tls)
		# With a handshake, in one piece, byte by byte, with a bit flipped; without one.
		session "$corpus/$1"
		sed -i '1s/^/0/' "$corpus/$1"/session-*
		printf '0PING\r\n\xfaPING\r\n\xfa\xfdPING\r\n' >"$corpus/$1/flip"
		printf '0PING\r\n\xf9HELP\r\nHELP\r\n\xf9\xfc\xfb' >"$corpus/$1/end"
		printf '0\xfe\x17\x03\x03\x00\x05hello' >"$corpus/$1/record"
		printf '1\x01\x02\x03\x04\xff' >"$corpus/$1/hello"
		printf '2\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03' >"$corpus/$1/raw"
		printf '2HELLO\r\n' >"$corpus/$1/plain"
		;;
	fuzz_amqp) frames tests/cases/amqp.txt "$corpus/$1" ;;
	fuzz_stomp) frames tests/cases/stomp.txt "$corpus/$1" ;;
	fuzz_http)
		http "$corpus/$1"
		http_heads "$corpus/$1"
		;;
	fuzz_http_head) http_heads "$corpus/$1" ;;
	fuzz_text)
		requests "$corpus/$1"
		printf 'redis://user:pass@[::1]:6379/3' >"$corpus/$1/redis"
		printf 'tide+unix:/run/x.sock?vhost=a&user=b' >"$corpus/$1/tide"
		printf '2026-11-23T10:00:00.500Z' >"$corpus/$1/time"
		printf '2001:db8::/33' >"$corpus/$1/network"
		printf '*/20 2 1-7 jan,mar mon-fri' >"$corpus/$1/cron"
		cp /usr/share/zoneinfo/Europe/Berlin /usr/share/zoneinfo/Pacific/Apia "$corpus/$1"
		cp rules/filter/*.lua lua/tide/*.lua "$corpus/$1"
		;;
	fuzz_json)
		printf '{"a":[1,-2.5e3,"\\u00e4\\ud83d\\ude00\\n",true,null],"b":{"a":{}}}' \
			>"$corpus/$1/document"
		cp docs/openapi.json "$corpus/$1"
		;;
	fuzz_decode) sed -n 's/^< //p' tests/cases/session.txt >"$corpus/$1/session" ;;
	fuzz_codec)
		printf '\x9a\x01\xa1x\xa1k\x01\x00\x00\x00\x00\x81\xa1a\xa1b\xa1p' \
			>"$corpus/$1/message"
		;;
	fuzz_record)
		# Offset 200 and so on, three records: all fields, none, some.
		printf '\x01%s\xc8\x01\x6e\x03\xac\x02\xe8\x07%b%b%b' 12345678 \
			'\x15\x7b\x02\x9a\x01\x06orders\x03key\x03\x01\x01h\x01vone' \
			'\x04\x00two' '\x0e\x17\x01\x2a\xa0\x1f\x05otherfour' \
			>"$corpus/$1/batch"
		;;
	esac
}

run() {
	local name=$1 known=tests/fuzz/regressions/$1 log=$build/$1.log
	local options=(-max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048
		-artifact_prefix="$found/$name-" -print_final_stats=1 -max_len=4096)
	case $name in
	fuzz_request | fuzz_line | fuzz_tls) options+=(-dict=tests/fuzz/line.dict) ;;
	fuzz_http | fuzz_http_head) options+=(-dict=tests/fuzz/http.dict) ;;
	esac
	# What the broker keeps from run to run makes every run look like a leak.
	case $name in fuzz_line | fuzz_tls | fuzz_http) options+=(-detect_leaks=0) ;; esac
	seed "$name"
	local inputs=("$corpus/$name")
	[ ! -d "$known" ] || inputs+=("$known")
	if "$build/fuzzers/$name" "${options[@]}" "${inputs[@]}" >"$log" 2>&1; then
		printf '%-14s %10s runs\n' "$name" \
			"$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
	else
		printf '%-14s FAILED, see %s\n' "$name" "$log"
		grep -aE '^(SUMMARY|Test unit written)|ERROR' "$log"
		status=1
	fi
}

if [ $# -eq 0 ]; then
	for source in tests/fuzz/fuzz_*.c; do
		set -- "$@" "$(basename "$source" .c)"
	done
fi
for name in "$@"; do
	run "$name"
done
exit $status
