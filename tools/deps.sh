#!/bin/sh
# deps.sh GROUP...: install the Debian packages that are missing.
#
# Groups: build, test, test-browser, test-clients, lint, fuzz, bench, profile, deb. Without
# test-browser and test-clients, the tests that need them are pending. Quick and silent when
# nothing is missing. Needs root or sudo otherwise. A daemon that is installed on the way (Redis,
# Prometheus) is started neither now nor at boot, and one that was there is left alone.
set -eu

# A package, and the groups that need it.
table='
amqp-specs                lint
amqp-tools                test-clients
binutils                  build
build-essential           deb
celery                    test-clients
chromium                  test-browser
chromium-driver           test-browser
clang                     fuzz
clang-format              lint
curl                      test
debhelper                 deb
dh-python                 deb
fish                      test-clients
gcc                       build
libbsd-dev                build
libc6-dev                 build
libclang-rt-dev           fuzz
libcmocka-dev             test
libhiredis-dev            build
libjansson-dev            build
liblua5.4-dev             build
libncurses-dev            build
libnet-stomp-perl         test-clients
libssl-dev                build
libuv1-dev                build
libwslay-dev              build
libxxhash-dev             build
lintian                   deb
linux-perf                profile
lua-busted                test
lua-check                 test lint
lua-sec                   test
lua-socket                test
lua5.4                    test lint bench
mandoc                    lint
mmdebstrap                deb
mypy                      lint
netcat-openbsd            test
npm                       test-clients
openssl                   test
php-cli                   test-clients
php-stomp                 test-clients
pkg-config                build
prometheus                test-clients
pycodestyle               lint
python3                   test deb
python3-amqp              test-clients
python3-jsonschema        test
python3-pika              test-clients
python3-prometheus-client test
python3-stomp             test-clients
python3-venv              test-clients
redis-server              build
redis-tools               test
ruby-stomp                test-clients
shellcheck                lint
tmux                      test
tzdata                    build
uthash-dev                build
valgrind                  bench
zsh                       test-clients
'

packages_of() {
	found=
	while read -r package groups; do
		case " $groups " in
		*" $1 "*)
			# Node is often there from elsewhere, and then brings npm along.
			[ "$package" = npm ] && command -v npm >/dev/null || echo "$package"
			found=yes
			;;
		esac
	done <<-TABLE
		$table
	TABLE
	[ -n "$found" ] || { echo "deps.sh: no such group: $1 (they are in its table)" >&2; exit 2; }
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
	packages=$(packages_of "$group") || exit
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
# The broker starts its own Redis, and tests need tools alone; nobody has asked for daemons.
for daemon in redis-server prometheus; do
	case "$missing " in
	*" $daemon "*) $sudo update-rc.d "$daemon" disable >/dev/null 2>&1 || true ;;
	esac
done
