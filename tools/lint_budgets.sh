#!/bin/bash
# lint_budgets.sh [UPDATE]: hold each floor of core/, and the tests, to its budget of lines.
#
# tools/budgets.txt has a line for each: the folder, and how many lines of C and headers it may have. A floor that
# is above its budget fails: growth is a decision, and whoever raises a budget says why in the commit. A budget that
# is more than 200 lines too large fails too, so that what was taken out stays out. UPDATE writes today's lines.
set -u
cd "$(dirname "$0")/.." || exit 1

folders() {
	find core -type d ! -path '*/page*' -exec sh -c 'ls "$1"/*.[ch] >/dev/null 2>&1 && echo "$1"' _ {} \; | LC_ALL=C sort
	echo include/tidemq
}

# FOLDER: its lines; of a floor without those of the floors inside.
count() {
	find "$1" -maxdepth 1 -name '*.[ch]' -exec cat {} + | wc -l
}

if [ "${1:-}" = UPDATE ]; then
	for folder in $(folders); do echo "$folder $(count "$folder")"; done >tools/budgets.txt
	exit
fi
status=0
for folder in $(folders); do
	lines=$(count "$folder")
	budget=$(awk -v folder="$folder" '$1 == folder { print $2 }' tools/budgets.txt)
	if [ -z "$budget" ]; then
		echo "$folder has $lines lines and no budget: add it to tools/budgets.txt"
		status=1
	elif [ "$lines" -gt "$budget" ]; then
		echo "$folder has $lines lines, $budget at most (tools/budgets.txt): take some out, or raise it and say why"
		status=1
	elif [ "$lines" -lt $((budget - 200)) ]; then
		echo "$folder has $lines lines, and a budget of $budget (tools/budgets.txt): lower it"
		status=1
	fi
done
exit $status
