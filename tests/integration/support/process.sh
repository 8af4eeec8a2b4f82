#!/bin/bash
# process.sh run | guard: the processes of one broker under test.
#
# TIDE_TEST_DIR is the broker's own temporary directory. Everything that has it
# in its arguments or as its working directory belongs to it: the broker (which
# is started with --data there) and its Redis.
set -u
dir=$TIDE_TEST_DIR

# The test process hands down its sockets and pipes. A broker that held them
# would keep connections open that a test has closed.
close_inherited() {
	local fd
	for fd in /proc/self/fd/*; do
		fd=${fd##*/}
		# bash reads this script through 255.
		[ "$fd" -le 2 ] || [ "$fd" -eq 255 ] || eval "exec $fd>&-"
	done
} 2>/dev/null

# By bash alone: a process for each look would take longer than the end of a broker.
pids() {
	local process words
	for process in /proc/[0-9]*; do
		words=()
		mapfile -d '' words <"$process/cmdline"
		if [[ "${words[*]}" == *"$dir"* ]] || { cd -P "$process/cwd" && [[ $PWD == "$dir"* ]]; }; then
			echo "${process#/proc/}"
		fi
		cd /
	done
} 2>/dev/null

# What $dir/command says, with its pid, output and exit status in files.
run() {
	bash "$dir/command" >"$dir/stdout" 2>>"$dir/stderr" </dev/null &
	local broker=$!
	echo "$broker" >"$dir/pid.new"
	mv "$dir/pid.new" "$dir/pid"
	wait "$broker"
	echo "$?" >"$dir/exit.new"
	mv "$dir/exit.new" "$dir/exit"
}

# Standard input is a pipe that the test process holds open. When that ends, for
# whatever reason, nothing of the broker may outlive it.
guard() {
	trap '' INT TERM HUP
	cat >/dev/null
	local left
	while left=$(pids) && [ -n "$left" ]; do
		# shellcheck disable=SC2086 # the list is words
		kill -9 $left 2>/dev/null
		sleep 0.01
	done
	# `run` may just be writing the exit status.
	rm -rf "$dir" || { sleep 0.1; rm -rf "$dir"; }
}

case $1 in
run)
	close_inherited
	run >/dev/null 2>&1 </dev/null &
	;;
guard)
	close_inherited
	guard >/dev/null 2>&1
	;;
esac
