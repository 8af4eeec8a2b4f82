#!/bin/bash
# lint.sh: what a machine can say about style. Prints what is wrong, and fails.
#
# CC and CFLAGS, as the Makefile has them, compile each header by itself. The objects of
# the build B tell who calls whom; FLOORS are the folders of core/ from the lowest.
# shellcheck disable=SC2317 # the checks are called by their names
set -u
status=0

check() {
	local name=$1
	shift
	if "$@"; then
		printf '  ok    %s\n' "$name"
	else
		printf '  FAIL  %s\n' "$name"
		status=1
	fi
}

existing() {
	local path
	for path in "$@"; do
		[ ! -e "$path" ] || echo "$path"
	done
}

c_files() { existing core include tests examples | xargs -I% find % -name '*.[ch]' | LC_ALL=C sort; }
scripts() {
	grep -rlE '^#!/bin/(ba)?sh' tools tests examples packaging .ci 2>/dev/null | LC_ALL=C sort
}

# shellcheck disable=SC2086 # FLOORS is a list of words
floors() { lua5.4 tools/lint_floors.lua "${B:-build}" ${FLOORS:-}; }

format() {
	local off
	off=$(c_files | xargs -r clang-format --dry-run -Werror 2>&1 |
		sed -n 's/^\([^: ]*\):.*error:.*/\1: run make format/p' | sort -u)
	[ -z "$off" ] || { echo "$off" && return 1; }
}

# A header needs no other before it.
headers() {
	local header bad=0
	for header in $(find core include -name '*.h' | LC_ALL=C sort); do
		# CFLAGS is a list of words with quotes in it.
		printf '#include "%s"\n' "$header" |
			eval "${CC:-cc} ${CFLAGS:-} -I. -fsyntax-only -x c -" || bad=1
	done
	return "$bad"
}

# Files of 300 to 900 lines; at 1,200 a reader asks for a split by idea.
lengths() {
	local long
	long=$(existing core include lua rules tests tools examples | xargs -I% find % -type f \
		\( -name '*.[ch]' -o -name '*.lua' -o -name '*.sh' \) -exec wc -l {} + | awk '$1 > 1200 && $2 != "total" { print $2 ": " $1 " lines, 1200 at most" }')
	[ -z "$long" ] || { echo "$long" && return 1; }
}

lua_files() { existing core/store lua rules tests examples tools .luacheckrc .busted | xargs luacheck --quiet --no-color; }

# The types and the style of the Python client; its tests have no types.
python() {
	local cache=${B:-build}/mypy
	mkdir -p "$cache"
	mypy --config-file examples/python/pyproject.toml --cache-dir "$cache" --no-error-summary \
		examples/python/tidemq examples/python/*.py &&
		pycodestyle --max-line-length=100 examples/python tests/python tests/field tests/amqp tools
}

# The methods of AMQP are those of its XML, where that is installed.
amqp() { python3 tools/amqp_methods.py --check core/proto/amqp/amqp_methods.h; }

shell() { scripts | xargs -r shellcheck -x; }

# What is made of the help, and the overview.
man_pages() {
	sed 's/@DATE@/2026-11-23/' docs/tidemq.1 | mandoc -Tlint -Wwarning && mandoc -Tlint -Wwarning "${B:-build}"/man/*.1
}

check "floors, calls, names (tools/lint_floors.lua)" floors
check "every header stands alone" headers
check "clang-format" format
check "file lengths" lengths
check "budgets of the floors" tools/lint_budgets.sh
check "luacheck" lua_files
if command -v shellcheck >/dev/null; then check "shellcheck" shell; fi
if command -v mandoc >/dev/null; then check "mandoc" man_pages; fi
check "methods of AMQP" amqp
if command -v mypy >/dev/null && command -v pycodestyle >/dev/null; then
	check "mypy, pycodestyle" python
fi
exit $status
