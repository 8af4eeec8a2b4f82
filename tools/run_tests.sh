#!/bin/bash
# run_tests.sh BUILD WHAT...: run the tests of a build and add up their totals.
#
# WHAT: unit (cmocka programs in BUILD/unit), lua (busted, tests/lua),
# integration (busted, tests/integration, tests/field, tests/model and tests/chaos, against BUILD/tidemq),
# sanitized (integration without tests/not_sanitized.txt).
# A program or a spec file is a job. TIDE_TEST_JOBS jobs run at once, by default four
# for each core: most of them wait most of the time. The longest jobs start first. What a job takes depends on the
# machine; one that says nothing for 900 s, times TIDE_TEST_PATIENCE, hangs, and is ended.
#
# Prints a line for each job that ends, the whole output of a job that failed, and
# a line for each five seconds in which no job ends. A job that failed is repeated
# alone at the end, and counts by that. Then says which spec files have pending tests, and
# how to add the packages that those need; with CI=true one that lacks them is a failed one.
# Prints `tests: N passed, N failed` last; fails when a test failed or none ran.
set -u
build=$1
shift
TIDEMQ=$(realpath "$build")/tidemq
export TIDEMQ
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0:detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
export TIDE_MATRIX_PROGRESS=1
limit=${TIDE_TEST_JOBS:-$((4 * $(nproc)))}
patience=${TIDE_TEST_PATIENCE:-1}
patience=${patience%.*}
silence=$((900 * (patience > 1 ? patience : 1)))
passed=0
failed=0
pending=() # a line for each spec file that has such tests
outputs=$(mktemp -d)
declare -A job_of=() path_of=() output_of=() started_of=() # by process id
again=() # jobs that failed beside others
is_alone=no
started= # jobs
jobs_started=0
last_line=$SECONDS
ticker=

# The shipped rules alone: a user may have put more into rules/, and tests list what is there.
export TIDE_TEST_RULES=$outputs/rules
if ! git ls-files -z rules 2>/dev/null | xargs -0r cp --parents -t "$outputs" 2>/dev/null ||
	[ ! -d "$TIDE_TEST_RULES" ]; then
	cp -R rules "$outputs"
fi

end_all() {
	kill ${ticker:+"$ticker"} "${!job_of[@]}" 2>/dev/null
	wait
	rm -rf "$outputs"
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP

say() {
	# shellcheck disable=SC2059 # the first argument is a format
	printf "$@"
	last_line=$SECONDS
}

# The last number that the expression finds in the output of a job, or 0.
number() {
	local n
	n=$(sed -nE "s/$2/\\1/p" "$1" | tail -n 1)
	echo "${n:-0}"
}

# JOB OUTPUT: of the spec file, the tests that are pending. Those that lack packages name the
# target that adds them (tests/integration/support/needs.lua); of others the reason is shown.
note_pending() {
	local n targets lacking
	n=$(number "$2" '.* ([0-9]+) pending :.*')
	[ "$n" -ne 0 ] || return 0
	targets=$(sed -nE 's/.*\(needs packages: make (deps-[a-z-]+)\)$/\1/p' "$2")
	lacking=$(echo "$targets" | grep -c .)
	[ "$lacking" -eq "$n" ] || sed -n '/^Pending -> /,$p' "$2"
	echo "$targets" >>"$outputs/targets"
	pending+=("pending: $n of $1")
	[ -z "${CI:-}" ] || failed=$((failed + lacking))
}

# PID STATUS: count what the job did. A job that failed without saying so (a crash,
# a file that does not load) is one failed test.
count() {
	local job=${job_of[$1]} output=${output_of[$1]} seconds=$((SECONDS - started_of[$1])) good bad
	local path=${path_of[$1]}
	unset "job_of[$1]"
	if [[ $job == *_spec.lua ]]; then
		good=$(number "$output" '^([0-9]+) success(es)? \/.*')
		bad=$(($(number "$output" '.* ([0-9]+) failures? \/.*') + $(number "$output" '.* ([0-9]+) errors? \/.*')))
	else
		good=$(grep -c '^\[       OK \]' "$output")
		bad=$(number "$output" '^\[  FAILED  \] ([0-9]+) test\(s\).*')
	fi
	if [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
		echo "$job ended with status $2"
	fi
	if [ "$bad" -ne 0 ] || [ -n "${VERBOSE:-}" ]; then cat "$output"; fi
	if [ "$bad" -ne 0 ] && [ "$is_alone" = no ]; then
		again+=("$path")
		say '%-48s %4d passed %3d failed %4d s, to be repeated alone\n' "$job" "$good" "$bad" "$seconds"
		return
	fi
	passed=$((passed + good))
	failed=$((failed + bad))
	[[ $job != *_spec.lua ]] || note_pending "$job" "$output"
	say '%-48s %4d passed %3d failed %4d s\n' "$job" "$good" "$bad" "$seconds"
}

end_silent() {
	local pid output now
	now=$(date +%s)
	for pid in "${!job_of[@]}"; do
		output=${output_of[$pid]}
		[ $((now - $(stat -c %Y "$output"))) -ge "$silence" ] || continue
		echo "${job_of[$pid]} said nothing for $silence s, and is ended" >>"$output"
		kill "$pid" 2>/dev/null
	done
}

# Wait until fewer than $1 jobs run.
wait_below() {
	local pid status
	while [ "${#job_of[@]}" -ge "$1" ]; do
		if [ -z "$ticker" ]; then
			sleep 5 &
			ticker=$!
		fi
		wait -n -p pid "$ticker" "${!job_of[@]}"
		status=$?
		if [ "$pid" != "$ticker" ]; then
			count "$pid" "$status"
			continue
		fi
		ticker=
		end_silent
		[ $((SECONDS - last_line)) -lt 5 ] || say 'running: %s\n' "${job_of[*]}"
	done
}

start() {
	local command=("$1")
	[[ $1 != *_spec.lua ]] || command=(lua5.4 "$(command -v busted)" --output=plainTerminal "$1")
	jobs_started=$((jobs_started + 1))
	# For its -k: what it runs is told to end with it, and is killed when it does not.
	timeout -k 5 0 "${command[@]}" >"$outputs/$jobs_started" 2>&1 </dev/null &
	job_of[$!]=${1#"$build"/}
	path_of[$!]=$1
	output_of[$!]=$outputs/$jobs_started
	started_of[$!]=$SECONDS
}

# Jobs that take half a minute or more on two idle cores, the longest first.
longest='chaos/matrix_spec integration/high_availability_doc_spec integration/dashboard_spec integration/dedupe_spec chaos/refusal_spec
	chaos/bounce_matrix_spec integration/cluster_spec
	chaos/transaction_spec integration/python_spec integration/check_store_spec integration/warnings_spec
	integration/storm_spec engine/test_ceiling integration/dashboard_rules_spec
	integration/dashboard_glance_spec shard/test_shard_model integration/dashboard_routes_spec
	integration/http_spec engine/test_engine chaos/byid_matrix_spec integration/store_trouble_spec
	integration/rules_walk_spec integration/receiving_spec chaos/log_matrix_spec'

# The jobs of one kind.
jobs_of() {
	local program
	case $1 in
	unit)
		find "$build/unit" -name 'test_*' -type f ! -name '*.d' | sort | while read -r program; do
			# A test whose source is gone is not run.
			[ ! -f "tests/unit/${program#"$build"/unit/}.c" ] || echo "$program"
		done
		;;
	lua) find tests/lua -name '*_spec.lua' | sort ;;
	integration) find tests/chaos tests/model tests/field tests/integration -name '*_spec.lua' | sort ;;
	sanitized) jobs_of integration | grep -vxFf tests/not_sanitized.txt ;;
	*)
		echo "run_tests.sh: unit, lua, integration or sanitized, not '$1'" >&2
		return 2
		;;
	esac
}

jobs=
for what in "$@"; do
	list=$(jobs_of "$what") || exit
	jobs="$jobs $list"
done
for long in $longest; do
	for job in $jobs; do
		[[ $job != *"/$long" && $job != *"/$long.lua" ]] || first="${first:-} $job"
	done
done
for job in ${first:-} $jobs; do
	[[ " $started " != *" $job "* ]] || continue
	started="$started $job"
	wait_below "$limit"
	start "$job"
done
wait_below 1
# Beside others on a busy machine a deadline may pass that holds alone. What fails twice has
# failed; the first failure is shown above in any case.
is_alone=yes
for job in "${again[@]}"; do
	wait_below 1
	start "$job"
done
wait_below 1
if [ "${#pending[@]}" -ne 0 ]; then
	printf '%s\n' "${pending[@]}"
	targets=$(sort -u "$outputs/targets" | xargs)
	[ -z "$targets" ] || echo "to run them: make $targets${CI:+ (with CI=true they have failed)}"
fi
echo "tests: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
