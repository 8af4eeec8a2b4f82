#!/bin/bash
# install_rules.sh SHIPPED ETC: install rules/ below SHIPPED, and make ETC, where operators put
# scripts of their own.
#
# Earlier versions copied the shipped scripts to ETC. A copy that nobody has changed is removed: it
# would hide the script of this version.
set -eu
shipped=$1
etc=$2

find rules -name '*.lua' | sort | while read -r path; do
	file=${path#rules/}
	if [ -e "$etc/$file" ]; then
		if cmp -s "$etc/$file" "$shipped/$file" || cmp -s "$etc/$file" "$path"; then
			rm "$etc/$file"
		else
			printf '  kept     %s: it hides the shipped %s\n' "$etc/$file" "$shipped/$file"
		fi
	fi
	install -D -m 644 "$path" "$shipped/$file"
done
install -d "$etc"
