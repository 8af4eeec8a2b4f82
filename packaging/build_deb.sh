#!/bin/bash
# build_deb.sh DIR VERSION: build the packages of the source tree in DIR. `make deb` does.
#
# The tree is copied to DIR/tidemq-VERSION, with packaging/debian as its debian/: the files of git
# with their changes, or all but build/ without git.
set -eu
dir=$1
version=$2
tree=$dir/tidemq-$version

packaged=$(dpkg-parsechangelog -l packaging/debian/changelog -S Version)
if [ "${packaged%-*}" != "$version" ]; then
	echo "build_deb.sh: packaging/debian/changelog begins with $packaged, and the Makefile has $version" >&2
	exit 1
fi
rm -rf "$dir"
mkdir -p "$tree"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' file; do
		[ ! -e "$file" ] || printf '%s\0' "$file"
	done | tar --null --files-from=- --create
else
	tar --create --exclude=./build .
fi | tar --extract --directory "$tree"
cp -r packaging/debian "$tree/debian"
# Make passes its own variables down; the packages have theirs.
cd "$tree"
env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS -u CC dpkg-buildpackage -us -uc -b
rm -rf "$tree"
echo "packages: $dir"
