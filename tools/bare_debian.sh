#!/bin/bash
# bare_debian.sh [SUITE...]: build, test, install and try the committed tree in bare roots of
# Debian (bookworm and trixie), once as root and once as a user with sudo.
#
# Needs root and debootstrap. The mirror is that of this machine's own apt sources.
#   TEST="make test WHAT=unit"   what to run instead of `make test`
#   WORK=DIR                     where the roots go; default: a new directory, removed at the end
#   WHO="root"                   as whom; default: "root user"
# Prints a line for each step, and what it said when it failed.
# shellcheck disable=SC2317 # the steps are called by their names
set -eu
suites=${*:-bookworm trixie}
tree=$(cd "$(dirname "$0")/.." && pwd)
test=${TEST:-make test}

[ "$(id -u)" -eq 0 ] || { echo "bare_debian.sh: needs root, to make roots of Debian" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "bare_debian.sh: needs debootstrap: apt-get install debootstrap" >&2; exit 2; }
if [ -n "${WORK:-}" ]; then
	mkdir -p "$WORK"
	work=$(cd "$WORK" && pwd)
else
	work=$(mktemp -d)
	trap 'rm -rf --one-file-system "$work"' EXIT
fi

# Where this machine has the release CODENAME from.
mirror_of() {
	# shellcheck disable=SC2016 # apt fills that in
	apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
		awk -v codename="$1" '$2 == codename { print $1; exit }'
}
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=${MIRROR:-$(mirror_of "$here")}
security=$(mirror_of "$here-security")
[ -n "$mirror" ] || { echo "bare_debian.sh: apt has no mirror of $here; name one: MIRROR=URL" >&2; exit 2; }

failed=0
# NAME COMMAND...: a line that says how it went.
step() {
	local name=$1 start=$SECONDS log
	shift
	log=$work/$(echo "$name" | tr ' /' '__').log
	printf '%-44s ' "$name"
	if "$@" >"$log" 2>&1 </dev/null; then
		printf 'ok %5d s  %s\n' $((SECONDS - start)) "$(grep -E '^tests: ' "$log" | tail -n 1)"
	else
		printf 'FAILED %5d s, see below\n' $((SECONDS - start))
		tail -n 100 "$log"
		failed=1
		return 1
	fi
}

# What minbase has, and what README asks for.
bootstrap() {
	debootstrap --variant=minbase --include=git,make,sudo,ca-certificates,netcat-openbsd \
		"$1" "$work/$1.new" "$mirror" || return
	cat >"$work/$1.new/etc/apt/sources.list" <<-LIST
		deb $mirror $1 main
		${security:+deb $security $1-security main}
	LIST
	mv "$work/$1.new" "$work/$1"
}

# ROOT COMMAND: in a root, with processes and mounts that end with the command.
inside() {
	local root=$1
	shift
	cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --pid --fork --kill-child bash -eu -c '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/tmp"
		exec chroot "$root" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
	' inside "$root" "$@"
}

# What is typed in a clone, by root or by a user with sudo. The broker that was installed
# takes a message and gives it back.
session() {
	cat <<-SESSION
		set -eu
		cd ~/tidemq
		status=0
		$test || status=1
		$1 make install
		cd /
		tidemq serve --listen 127.0.0.1:0 --data ~/data >~/out 2>~/err &
		broker=\$!
		trap 'kill \$broker || true; wait \$broker || true; cat ~/err' EXIT
		until grep -q '^listening on' ~/out; do kill -0 \$broker; sleep 0.1; done
		export TIDEMQ_URL=tide://\$(sed -n 's/^listening on //p' ~/out)
		tidemq declare queue jobs
		tidemq pub - jobs hello
		tidemq get jobs | grep hello
		cd ~/tidemq
		$1 make uninstall
		[ ! -e /usr/local/bin/tidemq ]
		exit \$status
	SESSION
}

as_root() {
	inside "$1" env HOME=/root bash -eu -c 'git clone -q /source.bundle ~/tidemq' &&
		inside "$1" env HOME=/root bash -c "$(session '')"
}

as_user() {
	inside "$1" bash -eu -c 'useradd -m -s /bin/bash tide
		echo "tide ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/tide
		runuser -u tide -- env HOME=/home/tide bash -c "git clone -q /source.bundle ~/tidemq"' &&
		inside "$1" runuser -u tide -- env HOME=/home/tide bash -c "$(session sudo)"
}

for suite in $suites; do
	[ -d "$work/$suite" ] || step "$suite: debootstrap" bootstrap "$suite" || continue
	for who in ${WHO:-root user}; do
		root=$work/$suite.$who
		rm -rf --one-file-system "$root"
		cp -a "$work/$suite" "$root"
		git -C "$tree" bundle create -q "$root/source.bundle" HEAD
		chmod a+r "$root/source.bundle"
		step "$suite: build, test, install as $who" "as_$who" "$root" || true
		rm -rf --one-file-system "$root"
	done
done
exit $failed
