#!/bin/sh
# run.sh cluster: a Redis Cluster of three masters and three replicas, and a broker that stores in it.
# run.sh sentinel: a Redis master, a replica, three Sentinels, and a broker that follows the master.
#
# All of it on 127.0.0.1 and in one directory. Ctrl-C ends everything.
#
#   TIDEMQ  the program (tidemq)
#   PORT    the first port of Redis (25001); a Redis Cluster also uses ports 10000 higher
#   LISTEN  where the broker listens (127.0.0.1:7310), HTTP for the dashboard (127.0.0.1:7311)
#   RULES   the rules directory (./rules, or the installed ones)
#   DIR     where everything is kept, also after the end; default: a directory that is removed
# Another one beside it needs a DIR, PORT, LISTEN and HTTP of its own.
set -eu
kind=${1:-}
tidemq=${TIDEMQ:-tidemq}
port=${PORT:-25001}
here=$(cd "$(dirname "$0")" && pwd)
broker=

case $kind in
cluster) count=6 ;;
sentinel) count=2 ;;
*)
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
	;;
esac

fail() {
	echo "run.sh: $*" >&2
	exit 1
}

if [ -n "${DIR:-}" ]; then
	mkdir -p "$DIR"
	dir=$(cd "$DIR" && pwd)
	# Two of them in one directory would end each other's servers.
	exec 9>>"$dir/lock"
	flock -n 9 || fail "process $(cat "$dir/lock") runs in $dir; end it, or take another DIR="
	echo $$ >"$dir/lock"
else
	dir=$(mktemp -d "${TMPDIR:-/tmp}/tidemq-$kind.XXXXXX")
fi

end_redis() {
	pid=$(cat "$1")
	# After kill -9 the number may be that of another process.
	grep -aqs '^redis-server' "/proc/$pid/cmdline" || return 0
	kill -CONT "$pid"
	kill -TERM "$pid"
	while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
}

# Redis ends behind the broker, which stores what its clients return.
finish() {
	trap '' EXIT INT TERM HUP
	if [ -n "$broker" ]; then
		kill -TERM "$broker" 2>/dev/null || true
		wait "$broker" || true
	fi
	for file in "$dir"/[0-9]*/pid; do
		[ ! -f "$file" ] || end_redis "$file"
	done
	[ -n "${DIR:-}" ] || rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# FILE PORT LINE...: a server with a file of its own, so that you can start it again with one command.
start_redis() {
	file=$1
	number=$2
	shift 2
	mkdir -p "$dir/$number"
	conf=$dir/$number/redis.conf
	if [ ! -f "$conf" ]; then
		sed "s/ 25001 / $port /" "$here/$file" >"$conf"
		printf '%s\n' "$@" "port $number" "dir $dir/$number" "daemonize yes" \
			"pidfile $dir/$number/pid" "logfile $dir/$number/log" >>"$conf"
	fi
	mode=
	[ "$file" != sentinel.conf ] || mode=--sentinel
	# A run that was killed has left its servers.
	if ! answers "$number"; then
		is_free "$number" || fail "port $number is in use: PORT= takes others"
		# shellcheck disable=SC2086 # no word, or one
		redis-server "$conf" $mode >/dev/null 9>&- || fail "redis-server at port $number does not start"
	fi
	until_true "redis-server at port $number does not answer" answers "$number"
}

# Another server at that port is not ours.
answers() {
	timeout 2 redis-cli -p "$1" info server 2>/dev/null | tr -d '\r' | grep -qxF "config_file:$dir/$1/redis.conf"
}

is_free() { timeout 2 redis-cli -p "$1" ping 2>&1 | grep -q 'Connection refused'; }

# MESSAGE COMMAND...: wait until the command succeeds, 30 s at most.
until_true() {
	message=$1
	shift
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || fail "$message; see $dir"
		sleep 0.1
	done
}

is_whole() {
	for n in $(seq "$port" $((port + count - 1))); do
		redis-cli -p "$n" cluster info | grep -q 'cluster_state:ok' || return 1
		! redis-cli -p "$n" info replication | grep -q 'master_link_status:down' || return 1
	done
}

start_cluster() {
	nodes=
	for n in $(seq "$port" $((port + count - 1))); do
		start_redis redis-node.conf "$n"
		nodes="$nodes 127.0.0.1:$n"
	done
	# shellcheck disable=SC2086 # nodes is a list of words
	if ! redis-cli -p "$port" cluster info | grep -q 'cluster_known_nodes:6'; then
		redis-cli --cluster create $nodes --cluster-replicas 1 --cluster-yes >"$dir/create" || fail "$(cat "$dir/create")"
	fi
	until_true "the cluster is not whole" is_whole
	store=redis://127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))
}

sees_all() {
	for n in $(seq $((port + 2)) $((port + 4))); do
		redis-cli -p "$n" sentinel master tide >"$dir/seen"
		grep -A1 -x 'num-slaves' "$dir/seen" | grep -qx 1 || return 1
		grep -A1 -x 'num-other-sentinels' "$dir/seen" | grep -qx 2 || return 1
	done
}

start_sentinel() {
	start_redis redis-pair.conf "$port"
	start_redis redis-pair.conf $((port + 1)) "replicaof 127.0.0.1 $port"
	watchers=
	for n in $(seq $((port + 2)) $((port + 4))); do
		start_redis sentinel.conf "$n"
		watchers="$watchers,127.0.0.1:$n"
	done
	until_true "the Sentinels do not know each other" sees_all
	store=redis+sentinel://${watchers#,}/tide
}

show_cluster() {
	cat <<-HINTS
		  redis-cli -p $port cluster nodes            who is master of which slots, who follows
		  redis-cli -p $((port + 3)) cluster failover         this replica takes over in order
		  kill -9 \$(cat $dir/$port/pid)
		                                            a master dies: after five seconds its replica takes over;
		                                            queues of other masters go on meanwhile
		  redis-server $dir/$port/redis.conf
		                                            it is back, and follows
		  redis-cli --cluster reshard 127.0.0.1:$port   slots move to another master while the broker works
	HINTS
}

show_sentinel() {
	cat <<-HINTS
		  redis-cli -p $((port + 2)) sentinel get-master-addr-by-name tide
		  redis-cli -p $((port + 2)) sentinel failover tide   the replica takes over
		  kill -9 \$(cat $dir/$port/pid)
		                                            the master dies: after three seconds the replica takes over
		  redis-server $dir/$port/redis.conf
		                                            it is back, and follows
	HINTS
}

explain() {
	url=tide://$(sed -n 's/^listening on //p' "$dir/out" | head -n 1)/
	dashboard=$(sed -n 's/^http on //p' "$dir/out")
	cat <<-HINTS

		The broker runs with --store $store
		Everything is in $dir; Ctrl-C ends all of it.
		${dashboard:+Dashboard: http://$dashboard/}

		In another terminal:

		  export TIDEMQ_URL=$url
		  $tidemq declare queue hello shards=6
		  $tidemq bench                             a load, while you do this:

	HINTS
	"show_$kind"
	echo
}

has_started() {
	grep -q '^listening on ' "$dir/out" || ! kill -0 "$broker" 2>/dev/null
}

echo "starting Redis at 127.0.0.1:$port and the ports that follow"
"start_$kind"

# In a session of its own: Ctrl-C must reach the broker once, and before Redis.
rules=${RULES:-}
setsid "$tidemq" serve --store "$store" --data "$dir/broker" ${rules:+--rules "$rules"} \
	--listen "${LISTEN:-127.0.0.1:7310}" --http "${HTTP:-127.0.0.1:7311}" >"$dir/out" 2>"$dir/log" 9>&- &
broker=$!
until_true "the broker does not listen" has_started
kill -0 "$broker" 2>/dev/null ||
	fail "the broker does not start (LISTEN= and HTTP= say where it listens): $(tail -n 5 "$dir/log")"
explain
tail -n +1 -f "$dir/log" --pid "$broker" 9>&- &
wait "$broker"
