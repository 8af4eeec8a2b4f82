#!/bin/bash
# build_deb.sh DIR VERSION: build the packages of the source tree in DIR. `make deb` does.
#
# A copy of the tree, with packaging/debian as its debian/, is built and removed again.
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
packaging/source_tree.sh "$tree"
cp -r packaging/debian "$tree/debian"
# Make passes its own variables down; the packages have theirs.
cd "$tree"
env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS -u CC dpkg-buildpackage -us -uc -b
rm -rf "$tree"
echo "packages: $dir"
