#!/bin/sh
# deps.sh GROUP...: install the Debian packages that are missing.
#
# Groups: build, test, lint, fuzz, bench, profile, deb. Quick and silent when nothing is missing. Needs
# root or sudo otherwise. A redis-server that is installed on the way is started
# neither now nor at boot, and one that was there is left alone.
set -eu

packages_of() {
	case $1 in
	build)
		echo gcc libc6-dev binutils pkg-config liblua5.4-dev libhiredis-dev libuv1-dev \
			uthash-dev libbsd-dev libjansson-dev libssl-dev libxxhash-dev libwslay-dev \
			libncurses-dev redis-server tzdata
		;;
	test)
		echo libcmocka-dev lua5.4 lua-busted lua-socket lua-sec lua-check redis-tools netcat-openbsd openssl tmux python3 \
			python3-prometheus-client python3-stomp python3-jsonschema python3-msgpack curl ruby-stomp libnet-stomp-perl php-cli \
			php-stomp chromium chromium-driver
		# Node is often there from elsewhere, and then brings npm along.
		command -v npm >/dev/null || echo npm
		;;
	lint)
		echo lua5.4 lua-check clang-format shellcheck mandoc mypy pycodestyle
		;;
	fuzz)
		echo clang libclang-rt-dev
		;;
	bench)
		echo lua5.4 valgrind
		;;
	profile)
		echo linux-perf
		;;
	deb)
		echo build-essential debhelper dh-python python3 lintian mmdebstrap
		;;
	*)
		echo "deps.sh: no such group: $1 (build, test, lint, fuzz, bench, profile, deb)" >&2
		exit 2
		;;
	esac
}

is_installed() {
	status=$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) || return 1
	[ "$status" = "install ok installed" ]
}

# One at a time: make may want two groups at once.
if command -v flock >/dev/null; then
	exec 9<"$0"
	flock 9
fi

missing=
for group in "$@"; do
	packages=$(packages_of "$group")
	for package in $packages; do
		if ! command -v dpkg-query >/dev/null || ! is_installed "$package"; then
			missing="$missing $package"
		fi
	done
done
[ -n "$missing" ] || exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	# Another system: what the packages bring may be there under other names.
	if command -v pkg-config >/dev/null && command -v redis-server >/dev/null &&
		pkg-config --exists lua5.4 hiredis libuv jansson openssl ncursesw; then
		exit 0
	fi
	echo "This is not a Debian system; please install what these packages bring:$missing" >&2
	exit 1
fi

if [ "$(id -u)" -eq 0 ]; then
	sudo=
elif command -v sudo >/dev/null; then
	# Without a terminal nobody can be asked for a password.
	if [ -t 0 ]; then sudo=sudo; else sudo="sudo -n"; fi
else
	echo "Missing packages:$missing" >&2
	echo "Installing them needs root: run 'apt-get install$missing' as root, or install sudo." >&2
	exit 1
fi

echo "Installing:$missing"

# 101 tells Debian's packages not to start what they install. The file is ours
# only when there was none.
policy=/usr/sbin/policy-rc.d
undo() {
	[ -z "${policy_is_ours:-}" ] || $sudo rm -f "$policy"
}
trap undo EXIT
trap 'exit 1' INT TERM HUP
if [ ! -e "$policy" ]; then
	policy_is_ours=1
	printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
	$sudo chmod 755 "$policy"
fi

apt() {
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" \
		</dev/null 9<&-
}
log=$(mktemp)
trap 'undo; rm -f "$log"' EXIT
# shellcheck disable=SC2086 # the list is words
if ! { apt update && apt install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "apt-get could not install:$missing" >&2
	exit 1
fi
case "$missing " in
*" redis-server "*)
	# The broker starts its own; nobody has asked for one of the system's.
	$sudo update-rc.d redis-server disable >/dev/null 2>&1 || true
	;;
esac
