#!/bin/bash
# bare_debian.sh [--container] [SUITE...]: build, test, install and try the committed tree in bare
# roots of Debian (bookworm and trixie), once as root and once as a user with sudo.
#
# --container: when its packages are there, a root has what a poor container gives. The network is
# 127.0.0.1 alone, without IPv6. /proc is read-only. The first process waits for nobody but its own
# child, so that orphans stay zombies.
#
# Needs root and debootstrap. The mirror is that of this machine's own apt sources.
#   TEST="make test WHAT=unit"   what to run instead of `make test`
#   PACKAGES="test test-browser" with --container: the groups of tools/deps.sh to install; default: test
#   TIDE_TEST_PATIENCE=3         is passed on
#   WHO="root"                   as whom; default: "root user"
#   LIMIT=3600                   seconds that a step may take
#   WORK=DIR                     keeps what debootstrap made there, and the logs, for the next run;
#                                default: a new directory, removed at the end
# Prints a line for each step, and what it said when it failed.
# shellcheck disable=SC2317 # the steps are called by their names
set -eu
is_container=
[ "${1:-}" != --container ] || { is_container=yes; shift; }
suites=${*:-bookworm trixie}
tree=$(cd "$(dirname "$0")/.." && pwd)
test=${TEST:-make test}
limit=${LIMIT:-3600}

[ "$(id -u)" -eq 0 ] || { echo "bare_debian.sh: needs root, to make roots of Debian" >&2; exit 2; }
for program in debootstrap ${is_container:+ip}; do
	command -v "$program" >/dev/null ||
		{ echo "bare_debian.sh: needs $program: apt-get install debootstrap iproute2" >&2; exit 2; }
done

# Where this machine has the release CODENAME from.
mirror_of() {
	# shellcheck disable=SC2016 # apt fills that in
	apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
		awk -v codename="$1" '$2 == codename && !n++ { print $1 }'
}
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=${MIRROR:-$(mirror_of "$here")}
security=$(mirror_of "$here-security")
[ -n "$mirror" ] || { echo "bare_debian.sh: apt has no mirror of $here; name one: MIRROR=URL" >&2; exit 2; }

if [ -n "${WORK:-}" ]; then
	mkdir -p "$WORK"
	work=$(cd "$WORK" && pwd)
else
	work=$(mktemp -d)
fi
root= # of the session under way
child=
# The step under way ends with all of its processes, and its mounts with them.
clean_up() {
	[ -z "$child" ] || { kill -KILL -- "-$child" && wait "$child"; } 2>/dev/null || true
	rm -rf --one-file-system "$work"/*.new ${root:+"$root"}
	[ -n "${WORK:-}" ] || rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

failed=0
# NAME COMMAND...: a line that says how it went.
step() {
	local name=$1 start=$SECONDS log status=0
	shift
	log=$work/$(echo "$name" | tr -c 'a-z\n' '_').log
	printf '%-40s ' "$name"
	set -m # a process group of its own
	"$@" >"$log" 2>&1 </dev/null &
	child=$!
	set +m
	wait "$child" || status=$?
	child=
	if [ "$status" -eq 0 ]; then
		printf 'ok     %5d s  %s\n' $((SECONDS - start)) "$(grep -E '^tests: ' "$log" | tail -n 1)"
	else
		printf 'FAILED %5d s, status %d:\n' $((SECONDS - start)) "$status"
		# Of the tests that passed there is a line each.
		grep -vE ' 0 failed +[0-9]+ s$|^running: |^  (cc|link) |\[ +(OK|RUN) +\]' "$log" | tail -n 100
		failed=1
	fi
	return "$status"
}

# What minbase has, and what README asks for.
bootstrap() {
	timeout --foreground -s KILL "$limit" debootstrap --variant=minbase \
		--include=git,make,sudo,ca-certificates,netcat-openbsd "$1" "$work/$1.new" "$mirror" || return
	cat >"$work/$1.new/etc/apt/sources.list" <<-LIST
		deb $mirror $1 main
		${security:+deb $security $1-security main}
	LIST
	mv "$work/$1.new" "$work/$1"
}

# As the first process: run the command, and wait for nothing else.
# shellcheck disable=SC2016 # perl's
first_process='my $pid = fork // die; $pid or exec @ARGV or die; waitpid $pid, 0; exit($? >> 8 || $? & 127)'

# WHO SHELL-COMMAND: in the root, as WHO. Processes and mounts end with the command. The shell
# outside of the chroot stays root: a process that gives that up would outlive `unshare`.
inside() { enter '' "$@"; }

# The same, in a container when one was asked for.
contained() { enter "$is_container" "$@"; }

# CONTAINED WHO SHELL-COMMAND
enter() {
	# shellcheck disable=SC2016 # the inner shell's
	timeout --foreground -s KILL "$limit" unshare --mount --pid ${1:+--net} --fork --kill-child \
		${1:+perl -e "$first_process"} bash -eu -c '
		root=$1
		contained=$2
		shift 2
		if [ -n "$contained" ]; then
			ip link set lo up
			[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
		fi
		mount -t proc ${contained:+-o ro} proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/tmp"
		chroot "$root" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
			TIDE_TEST_PATIENCE="${TIDE_TEST_PATIENCE:-1}" "$@" || exit
	' inside "$root" "$1" runuser -u "$2" -- bash -c "set -eu; export HOME=~; cd; $3"
}

# SUITE WHO: a copy of the root, with a clone in the home of WHO.
prepare() {
	cp -a "$work/$1" "$root" &&
		cp -L /etc/resolv.conf "$root/etc/resolv.conf" &&
		printf '127.0.0.1 localhost %s\n::1 localhost\n' "$(uname -n)" >"$root/etc/hosts" &&
		git -C "$tree" bundle create -q "$root/source.bundle" HEAD &&
		chmod a+r "$root/source.bundle" || return
	if [ "$2" != root ]; then
		inside root "useradd -m -s /bin/bash $2
			echo '$2 ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$2" || return
	fi
	inside "$2" "git clone -q /source.bundle tidemq"
}

# The broker that was installed takes a message and gives it back.
# shellcheck disable=SC2016 # the inner shell's
try='
	tidemq serve --listen 127.0.0.1:0 --data data >out 2>err &
	broker=$!
	trap "kill $broker; wait $broker || true; cat err" EXIT
	until grep -q "^listening on" out; do kill -0 $broker; sleep 0.1; done
	export TIDEMQ_URL=tide://$(sed -n "s/^listening on //p" out)
	tidemq declare queue jobs
	tidemq pub - jobs hello
	tidemq get jobs | grep hello
'

for suite in $suites; do
	[ -d "$work/$suite" ] || step "$suite: debootstrap" bootstrap "$suite" || continue
	for who in ${WHO:-root user}; do
		root=$work/$suite.$who
		[ "$who" = root ] && sudo='' || sudo=sudo
		rm -rf --one-file-system "$root"
		if step "$suite, $who: clone" prepare "$suite" "$who"; then
			[ -z "$is_container" ] || step "$suite, $who: packages" inside "$who" \
				"cd tidemq; tools/deps.sh build ${PACKAGES:-test}" || true
			step "$suite, $who: test" contained "$who" "cd tidemq; $test" || true
			step "$suite, $who: install" contained "$who" "cd tidemq; make deps; make; $sudo make install" || true
			step "$suite, $who: try" contained "$who" "$try" || true
			step "$suite, $who: uninstall" contained "$who" \
				"cd tidemq; $sudo make uninstall; [ ! -e /usr/local/bin/tidemq ]" || true
		fi
		rm -rf --one-file-system "$root"
		root=
	done
done
exit $failed
