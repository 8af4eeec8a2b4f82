#!/bin/bash
# test_image.sh DIR VERSION: take the OCI image in DIR apart with umoci, which verifies each digest,
# and run what it says with the user it says.
#
# Needs root, umoci and python3.
set -eux
image=$1
version=$2
bundle=$(mktemp -d)
broker=
clean_up() {
	[ -z "$broker" ] || { kill -KILL "$broker" && wait "$broker"; } 2>/dev/null || true
	rm -rf --one-file-system "$bundle"
}
trap clean_up EXIT

umoci stat --image "$image:$version"
umoci unpack --image "$image:$version" "$bundle/tree"
# What the runtime would do: user, directory, environment, arguments; no signal to stop is more
# than SIGTERM.
field() { python3 -c 'import json, sys; p = json.load(open(sys.argv[1]))["process"]; print(eval(sys.argv[2]))' "$bundle/tree/config.json" "$1"; }
user=$(field 'p["user"]["uid"]')
[ "$user" != 0 ]
[ "$(field 'p["cwd"]')" = /var/lib/tidemq ]
[ "$(field '" ".join(p["args"])')" = '/usr/bin/tidemq serve --config /etc/tidemq/tidemq.lua' ]
python3 - "$image" <<'PYTHON'
import json, sys
def blob(d): return json.load(open(f"{sys.argv[1]}/blobs/{d['digest'].replace(':', '/')}"))
manifest = blob(json.load(open(f"{sys.argv[1]}/index.json"))["manifests"][0])
config = blob(manifest["config"])["config"]
assert sorted(config["ExposedPorts"]) == ["7310/tcp", "7311/tcp"], config
assert list(config["Volumes"]) == ["/var/lib/tidemq"] and config["StopSignal"] == "SIGTERM", config
PYTHON

root=$bundle/tree/rootfs
[ "$(stat -c %u:%a "$root/var/lib/tidemq")" = "$user:700" ]
[ -z "$(find "$root" -perm /6000 -uid "$user")" ]

# In a network of its own, with the broker as the first process, as in a container.
mkfifo "$bundle/out"
# shellcheck disable=SC2016 # the inner shell's
unshare --mount --net --pid --fork --kill-child bash -euc '
	ip link set lo up
	mount -t proc proc "$1/proc"
	mount --rbind /dev "$1/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
	exec chroot --userspec="$2:$2" "$1" env -i PATH=/usr/bin:/bin sh -c "cd /var/lib/tidemq
		exec /usr/bin/tidemq serve --config /etc/tidemq/tidemq.lua"
' inside "$root" "$user" >"$bundle/out" &
broker=$!
while read -r line; do
	[[ $line != 'listening on 127.0.0.1:7310' ]] || break
done <"$bundle/out"
first=$(cat "/proc/$broker/task/$broker/children")
inside() { nsenter --target "${first// /}" --mount --net --pid chroot "$root" "$@"; }
inside tidemq declare queue jobs
inside tidemq pub - jobs hello
[ "$(inside tidemq get jobs --format %p)" = hello ]
kill -TERM "${first// /}"
status=0
wait "$broker" || status=$?
broker=
[ "$status" = 0 ]
