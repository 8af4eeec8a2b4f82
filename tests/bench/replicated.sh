#!/bin/sh
# replicated.sh BUILD DIR PORT LEVEL: a broker with --confirm LEVEL, on a Redis that has a replica.
# SIGTERM ends all three.
set -eu
build=$1 dir=$2 port=$3 level=$4

node() {
	name=$1
	shift
	mkdir -p "$dir/$name"
	redis-server --bind 127.0.0.1 --dir "$dir/$name" --save '' --appendonly yes --appendfsync always \
		--repl-diskless-sync-delay 0 "$@" >"$dir/$name/log" 2>&1 &
}

end() {
	trap - TERM INT
	for pid in $broker $replica $master; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" || true
	done
	exit 0
}

broker=''
node master --port $((port + 1))
master=$!
node replica --port $((port + 2)) --replicaof "127.0.0.1 $((port + 1))"
replica=$!
trap end TERM INT
until redis-cli -p $((port + 2)) info replication 2>/dev/null | grep -q '^master_link_status:up'; do
	sleep 0.1
done
"$build/tidemq" serve --http none --listen "127.0.0.1:$port" --store "redis://127.0.0.1:$((port + 1))" \
	--confirm "$level" &
broker=$!
wait "$broker"
end
