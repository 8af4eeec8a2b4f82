#!/bin/bash
# install_rules.sh SHIPPED ETC: install rules/ below SHIPPED, as they are, and below ETC, where the
# operator edits them.
#
# In ETC a script that the operator has changed stays as it is, and one that he has removed stays
# away; the others follow the new version. SHIPPED has what the last version installed.
set -eu
shipped=$1
etc=$2
status() { printf '  %-8s %s\n' "$1" "$etc/$2${3:-}"; }

find rules -name '*.lua' | sort | while read -r path; do
	file=${path#rules/}
	if [ ! -e "$etc/$file" ] && [ ! -e "$shipped/$file" ]; then
		install -D -m 644 "$path" "$etc/$file"
	elif [ ! -e "$etc/$file" ]; then
		status 'removed' "$file" ': stays removed'
	elif cmp -s "$etc/$file" "$path"; then
		:
	elif cmp -s "$etc/$file" "$shipped/$file"; then
		install -m 644 "$path" "$etc/$file"
		status 'updated' "$file"
	else
		status 'kept' "$file" ": it was changed; the shipped one is $shipped/$file"
	fi
	install -D -m 644 "$path" "$shipped/$file"
done
