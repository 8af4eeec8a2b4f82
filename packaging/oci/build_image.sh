#!/bin/bash
# build_image.sh DIR VERSION [SUITE]: an OCI image of the broker in DIR, an OCI layout of one layer
# without a registry. `make image` does.
#
# Needs root, mmdebstrap and a mirror of Debian. The layer is SUITE's minbase with the package tidemq,
# without documents. Like a .deb it is reproducible when SOURCE_DATE_EPOCH is set.
#   DEBS="tidemq_0.3.0-0tidemq1_amd64.deb"   default: that of `make deb`, which must be of the same SUITE
#   MIRROR=http://deb.debian.org/debian
set -eu
out=$1
version=$2
suite=${3:-bookworm}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)}

[ "$(id -u)" -eq 0 ] || { echo "build_image.sh: needs root, to make a root of Debian" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "build_image.sh: needs mmdebstrap: apt-get install mmdebstrap" >&2; exit 2; }
if [ -z "${DEBS:-}" ]; then
	DEBS=$(ls build/deb/tidemq_"$version"*.deb) || { echo "build_image.sh: no package: run make deb" >&2; exit 2; }
fi
architecture=$(dpkg-deb -f "$DEBS" Architecture)

rm -rf "$out"
mkdir -p "$out/blobs/sha256"
layer=$out/layer.tar

# The user of the package has the number 990, so that the owner of a volume is known outside.
# shellcheck disable=SC2016 # mmdebstrap gives the root
mmdebstrap --quiet --variant=minbase --format=tar \
	--include=systemd-standalone-sysusers,"$(realpath "$DEBS")" \
	--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount \
	--dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-include=/usr/share/doc/*/copyright' \
	--essential-hook='install -d "$1/etc/sysusers.d"' \
	--essential-hook='echo "u tidemq 990 - /var/lib/tidemq" >"$1/etc/sysusers.d/tidemq.conf"' \
	--customize-hook='chroot "$1" install -d -o tidemq -g tidemq -m 700 /var/lib/tidemq /var/lib/tidemq/candidates' \
	--customize-hook='cd "$1" && rm -rf var/lib/apt/lists/* var/cache/* var/log/* etc/hostname etc/resolv.conf' \
	"$suite" "$layer" "${MIRROR:-http://deb.debian.org/debian}"

# FILE: it becomes a blob; prints its descriptor's digest and size.
add_blob() {
	local digest
	digest=$(sha256sum "$1" | cut -d ' ' -f 1)
	mv "$1" "$out/blobs/sha256/$digest"
	printf '"digest": "sha256:%s", "size": %d' "$digest" "$(stat -c %s "$out/blobs/sha256/$digest")"
}

diff_id=$(sha256sum "$layer" | cut -d ' ' -f 1)
gzip -n -9 "$layer"
layer_blob=$(add_blob "$layer.gz")

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
cat >"$out/config" <<JSON
{
  "created": "$created",
  "architecture": "$architecture",
  "os": "linux",
  "config": {
    "User": "tidemq",
    "ExposedPorts": { "7310/tcp": {}, "7311/tcp": {} },
    "Env": ["PATH=/usr/bin:/bin"],
    "Entrypoint": ["/usr/bin/tidemq"],
    "Cmd": ["serve", "--config", "/etc/tidemq/tidemq.lua"],
    "Volumes": { "/var/lib/tidemq": {} },
    "WorkingDir": "/var/lib/tidemq",
    "StopSignal": "SIGTERM",
    "Labels": {
      "org.opencontainers.image.title": "tidemq",
      "org.opencontainers.image.version": "$version",
      "org.opencontainers.image.licenses": "MIT"
    }
  },
  "rootfs": { "type": "layers", "diff_ids": ["sha256:$diff_id"] },
  "history": [{ "created": "$created", "created_by": "packaging/oci/build_image.sh $suite" }]
}
JSON
config_blob=$(add_blob "$out/config")
cat >"$out/manifest" <<JSON
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.manifest.v1+json",
  "config": { "mediaType": "application/vnd.oci.image.config.v1+json", $config_blob },
  "layers": [{ "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $layer_blob }]
}
JSON
manifest_blob=$(add_blob "$out/manifest")
cat >"$out/index.json" <<JSON
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.index.v1+json",
  "manifests": [{
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    $manifest_blob,
    "platform": { "architecture": "$architecture", "os": "linux" },
    "annotations": { "org.opencontainers.image.ref.name": "$version" }
  }]
}
JSON
printf '{"imageLayoutVersion": "1.0.0"}\n' >"$out/oci-layout"
echo "image: $out ($(du -sh "$out" | cut -f 1))"
