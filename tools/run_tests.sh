#!/bin/bash
# run_tests.sh BUILD WHAT...: run the tests of a build and add up their totals.
#
# WHAT: unit (cmocka programs in BUILD/unit), lua (busted, tests/lua),
# integration (busted, tests/integration and tests/chaos, against BUILD/tidemq). Prints
# `tests: N passed, N failed` last; fails when a test failed or none ran.
set -u
build=$1
shift
TIDEMQ=$(realpath "$build")/tidemq
export TIDEMQ
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
passed=0
failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# The last number that the expression finds in the output, or 0.
number() {
	local n
	n=$(sed -nE "s/$1/\\1/p" "$output" | tail -n 1)
	echo "${n:-0}"
}

# NAME STATUS PASSED FAILED: a runner that failed without saying so (a crash, a
# file that does not load) is one failed test.
count() {
	local bad=$4
	if [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
		echo "$1 ended with status $2"
	fi
	passed=$((passed + $3))
	failed=$((failed + bad))
	if [ "$bad" -ne 0 ] || [ -n "${VERBOSE:-}" ]; then cat "$output"; fi
	printf '%-34s %5d passed %4d failed\n' "$1" "$3" "$bad"
}

run_unit() {
	local program status
	# shellcheck disable=SC2044 # our own file names
	for program in $(find "$build/unit" -name 'test_*' -type f ! -name '*.d' | sort); do
		# A test whose source is gone is not run.
		[ -f "tests/unit/${program#"$build"/unit/}.c" ] || continue
		timeout -k 5 300 "$program" >"$output" 2>&1 </dev/null
		status=$?
		count "${program#"$build"/}" $status \
			"$(grep -c '^\[       OK \]' "$output")" \
			"$(number '^\[  FAILED  \] ([0-9]+) test\(s\).*')"
	done
}

run_busted() {
	local status
	[ -n "$(find "$1" -name '*_spec.lua' -print -quit 2>/dev/null)" ] || return 0
	timeout -k 5 "$2" lua5.4 "$(command -v busted)" --output=plainTerminal "$1" \
		>"$output" 2>&1 </dev/null
	status=$?
	count "$1" $status "$(number '^([0-9]+) success(es)? \/.*')" \
		$(($(number '.* ([0-9]+) failures? \/.*') + $(number '.* ([0-9]+) errors? \/.*')))
}

for what in "$@"; do
	case $what in
	unit) run_unit ;;
	lua) run_busted tests/lua 300 ;;
	integration)
		run_busted tests/integration 900
		run_busted tests/chaos 600
		;;
	*)
		echo "run_tests.sh: unit, lua or integration, not '$what'" >&2
		exit 2
		;;
	esac
done
echo "tests: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
