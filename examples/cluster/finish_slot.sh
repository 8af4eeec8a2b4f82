#!/bin/sh
# finish_slot.sh SLOT FROM TO: end a move of a slot that was interrupted, while the broker works. FROM is the master
# that has the slot, TO the one that imports it, each as HOST:PORT.
#
# `redis-cli --cluster fix` takes the master with the most keys of the slot for its owner. If that is FROM, it lets
# FROM take writes before the keys that have moved are back: only without a broker is that safe.
# A password goes into REDISCLI_AUTH, and behind MIGRATE as `AUTH <password>`.
set -eu
slot=$1
from_host=${2%:*} from_port=${2##*:}
to_host=${3%:*} to_port=${3##*:}

at_from() { redis-cli -h "$from_host" -p "$from_port" "$@"; }
at_to() { redis-cli -h "$to_host" -p "$to_port" "$@"; }

# COMMAND...: redis-cli succeeds with an error of Redis too.
expect_ok() {
	answer=$("$@")
	case $answer in
	OK | NOKEY) ;;
	*)
		echo "finish_slot.sh: $answer" >&2
		exit 1
		;;
	esac
}

# Clients wait for keys that have moved as long as the slot is open, so there are no new ones.
while key=$(at_from cluster getkeysinslot "$slot" 1) && [ -n "$key" ]; do
	expect_ok at_from migrate "$to_host" "$to_port" '' 0 60000 keys "$key"
done
id=$(at_to cluster myid)
# TO first: if this script ends between the two, FROM sends clients to a master that takes them.
expect_ok at_to cluster setslot "$slot" node "$id"
expect_ok at_from cluster setslot "$slot" node "$id"
