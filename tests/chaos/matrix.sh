#!/bin/bash
# matrix.sh: every point of the crash matrices (matrix_spec.lua, log_matrix_spec.lua, bounce_matrix_spec.lua), in two
# processes for each core. TIDE_TEST_SEED chooses the order. Fails when a point does.
set -u
parts=${TIDE_TEST_JOBS:-$((2 * $(nproc)))}
export TIDE_MATRIX_SHARE=${TIDE_MATRIX_SHARE:-1} TIDE_MATRIX_PROGRESS=1
export TIDE_TEST_SEED=${TIDE_TEST_SEED:-$(($(date +%s) % 1000000))}
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait' EXIT
echo "TIDE_TEST_SEED=$TIDE_TEST_SEED, $parts parts"
for part in $(seq "$parts"); do
	TIDE_MATRIX_PART=$part/$parts lua5.4 "$(command -v busted)" --output=plainTerminal \
		tests/chaos/matrix_spec.lua tests/chaos/log_matrix_spec.lua tests/chaos/bounce_matrix_spec.lua </dev/null &
	pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
pids=()
[ "$status" -eq 0 ] && echo "matrix: every point holds" || echo "matrix: FAILED"
exit "$status"
