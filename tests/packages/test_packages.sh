#!/bin/bash
# test_packages.sh [SUITE...]: build the packages in a bare root of each Debian, look at them with
# lintian, and try them: install, use, upgrade, remove, purge; without systemd, and as a service
# under a real systemd (systemd-nspawn --boot). Then the OCI image. `make test-deb` does.
#
# Needs root, a mirror of Debian, and mmdebstrap, systemd-container, umoci, iproute2, python3.
#   MIRROR=http://deb.debian.org/debian
#   STEPS="build bare service image"   some of them alone
#   WORK=DIR   keeps roots, packages and logs there for the next run; default: a new directory,
#              removed at the end
# Prints a line for each step, and what it said when it failed.
# shellcheck disable=SC2317 # the steps are called by their names
set -eu
suites=${*:-bookworm trixie}
steps=${STEPS:-build bare service image}
mirror=${MIRROR:-http://deb.debian.org/debian}
tree=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^VERSION := //p' "$tree/Makefile")

[ "$(id -u)" -eq 0 ] || { echo "test_packages.sh: needs root, to make roots of Debian" >&2; exit 2; }
for program in mmdebstrap systemd-nspawn umoci ip python3; do
	command -v "$program" >/dev/null ||
		{ echo "test_packages.sh: needs $program: apt-get install mmdebstrap systemd-container umoci iproute2 python3" >&2; exit 2; }
done

if [ -n "${WORK:-}" ]; then
	mkdir -p "$WORK"
	work=$(cd "$WORK" && pwd)
else
	work=$(mktemp -d)
fi
root= # of the step under way
child=
# The step ends with all of its processes, and its mounts with them.
clean_up() {
	[ -z "$child" ] || { kill -KILL -- "-$child" && wait "$child"; } 2>/dev/null || true
	[ -z "$root" ] || rm -rf --one-file-system "$root"
	[ -n "${WORK:-}" ] || rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

failed=0
# NAME COMMAND...: a line that says how it went.
step() {
	local name=$1 start=$SECONDS log status=0
	shift
	log=$work/$(echo "$name" | tr -c 'a-z0-9\n' '_').log
	printf '%-40s ' "$name"
	set -m # a process group of its own
	"$@" >"$log" 2>&1 </dev/null &
	child=$!
	set +m
	wait "$child" || status=$?
	child=
	if [ "$status" -eq 0 ]; then
		printf 'ok     %5d s\n' $((SECONDS - start))
	else
		printf 'FAILED %5d s, status %d:\n' $((SECONDS - start)) "$status"
		tail -n 60 "$log"
		failed=1
	fi
	return "$status"
}

# COMMAND...: in the root. Processes and mounts end with the command.
inside() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --pid --fork --kill-child bash -eu -c '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/tmp"
		chroot "$root" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive "$@" || exit
	' inside "$root" "$@"
}

# SUITE: what minbase has.
bootstrap() {
	mmdebstrap --variant=minbase --include=ca-certificates "$1" "$work/$1.new" "$mirror"
	mv "$work/$1.new" "$work/$1"
}

# SUITE: the root becomes a copy of it, for one step.
copy() {
	rm -rf --one-file-system "$root"
	cp -a "$work/$1" "$root"
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
	mkdir -p "$root/packages"
	cp "$tree"/tests/packages/in_*.sh "$root/packages"
	[ ! -d "$work/debs.$1" ] || cp "$work/debs.$1"/*.deb "$root/packages"
}

# The packages, as `make deb` makes them in the committed and changed files.
build() {
	local suppress
	copy "$1"
	(cd "$tree" && packaging/source_tree.sh "$root/source") || return
	# Debian 12's lintian misses an init script; that of Debian 13 knows no such tag any more.
	[ "$1" = bookworm ] && suppress=--suppress-tags=package-supports-alternative-init-but-no-init.d-script ||
		suppress=
	# shellcheck disable=SC2016 # the inner shell's
	inside env SUPPRESS="$suppress" sh -euc '
		apt-get update -q
		apt-get install -q -y --no-install-recommends make
		cd /source
		tools/deps.sh deb
		make deb
		cp build/deb/*.deb build/deb/*.changes build/deb/*.buildinfo /packages
		lintian --allow-root --info --display-info --pedantic --fail-on error,warning,info,pedantic \
			$SUPPRESS build/deb/*.changes
		apt-get install -q -y ./build/deb/libtidemq-dev_*.deb ./build/deb/python3-tidemq_*.deb
		cc -o /dev/null examples/c/worker.c $(pkg-config --cflags --libs tidemq)
		cd / && python3 -c "import tidemq; print(tidemq.__file__)"
	' || return
	mkdir -p "$work/debs.$1"
	rm -f "$work/debs.$1"/*
	cp "$root"/packages/*.deb "$work/debs.$1"
}

# Where no init runs, as in a container.
bare() {
	copy "$1"
	inside sh /packages/in_bare.sh "$1"
}

# Under systemd as the first process, in a network of its own.
service() {
	copy "$1"
	inside sh -euc '
		apt-get update -q
		apt-get install -q -y --no-install-recommends systemd systemd-sysv dbus redis-tools tzdata
		apt-get install -q -y --no-install-recommends --download-only /packages/tidemq_*.deb
		dpkg --unpack /packages/tidemq_*.deb
		apt-get install -q -y --no-install-recommends --fix-broken
		apt-get purge -q -y tidemq
	' || return
	cat >"$root/etc/systemd/system/test.service" <<-'UNIT'
		[Unit]
		After=multi-user.target
		[Service]
		Type=exec
		ExecStart=/bin/sh -c 'sh /packages/in_service.sh >/packages/said 2>&1; echo $? >/packages/status'
		ExecStopPost=/bin/systemctl --no-block exit 0
	UNIT
	mkdir -p "$root/etc/systemd/system/default.target.wants"
	ln -s ../test.service "$root/etc/systemd/system/default.target.wants/test.service"
	ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
	SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 timeout -k 10 300 systemd-nspawn --quiet --directory="$root" --boot \
		--register=no --keep-unit --private-network --machine="tidemq-test-$1" >/dev/null
	cat "$root/packages/said"
	[ "$(cat "$root/packages/status")" = 0 ]
}

image() {
	MIRROR=$mirror DEBS=$(echo "$work/debs.$1"/tidemq_*.deb) "$tree/packaging/oci/build_image.sh" "$work/image.$1" "$version" "$1"
	"$tree/tests/packages/test_image.sh" "$work/image.$1" "$version"
}

for suite in $suites; do
	root=
	[ -d "$work/$suite" ] || step "$suite: bootstrap" bootstrap "$suite" || continue
	for kind in $steps; do
		root=$work/$suite.$kind
		step "$suite: $kind" "$kind" "$suite" || { [ "$kind" != build ] || break; }
		rm -rf --one-file-system "$root"
	done
done
exit $failed
