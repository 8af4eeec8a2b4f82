#!/bin/bash
# source_tree.sh DIR: copy the source tree to DIR: the files that git knows or would add, as they
# are now; without git all but build/.
set -eu
mkdir -p "$1"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' file; do
		[ ! -e "$file" ] || printf '%s\0' "$file"
	done | tar --null --files-from=- --create
else
	tar --create --exclude=./build .
fi | tar --extract --directory "$1"
