#!/bin/bash
# front.sh: a broker behind a front, in the place of one: `TIDEMQ=tests/integration/support/front.sh`.
#
# `serve` with an embedded Redis starts a Redis in the data directory, the owner of the store, and a front with the
# listeners that were asked for. The front is this process; the other two end with it. $TIDEMQ_BEHIND is the binary.
set -eu
tidemq=${TIDEMQ_BEHIND:-$(dirname "$0")/../../../build/tidemq}
[ "${1:-}" = serve ] || exec "$tidemq" "$@"
shift

owner=() data=
front=("$@")
while [ $# -gt 0 ]; do
	case $1 in
	--listen | --http) shift ;;
	--store) exec "$tidemq" serve "${front[@]}" ;;
	--data) data=$2 && shift ;;
	*) owner+=("$1") ;;
	esac
	shift
done
[ -n "$data" ] || exec "$tidemq" serve "${front[@]}"
store=(--data "$data" --store "redis+unix:$data/redis.sock")

redis-server --port 0 --unixsocket "$data/redis.sock" --dir "$data" --save '' --appendonly yes --appendfsync no \
	>"$data/redis.log" 2>&1 &
redis=$!
until redis-cli -s "$data/redis.sock" ping >/dev/null 2>&1; do kill -0 $redis && sleep 0.05; done
"$tidemq" serve --listen "unix:$data/owner.sock" --http none --cluster "unix:$data/owner.gate" "${store[@]}" \
	"${owner[@]}" 3>&- >"$data/owner.out" &
until [ -n "$(redis-cli -s "$data/redis.sock" hget '{tide}:holder' at)" ]; do kill -0 $! && sleep 0.05; done
# They end with the front, however that ends.
(
	trap '' TERM INT HUP
	tail --pid=$$ -f /dev/null
	kill $! $redis
) >/dev/null 2>&1 &
exec "$tidemq" serve --cluster "unix:$data/front.gate" "${store[@]}" "${front[@]}"
