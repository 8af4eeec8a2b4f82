#!/bin/sh
# in_bare.sh SUITE: in a bare root without an init: install, use, upgrade, remove, purge.
# test_packages.sh runs it there.
set -eux
cd /packages
# shellcheck source=tests/packages/in_common.sh
. ./in_common.sh

apt-get update -q
apt-get install -q -y --no-install-recommends systemd-standalone-sysusers ./tidemq_*.deb
# The user is there, and neither systemd nor a service of Redis has come along.
id tidemq
[ ! -e /lib/systemd/systemd ]
[ ! -e /usr/bin/redis-server ] && [ ! -e /lib/systemd/system/redis-server.service ]
[ "$(stat -c %U:%G:%a /etc/tidemq/tidemq.lua)" = root:root:644 ]
for file in bash-completion/completions/tidemq zsh/vendor-completions/_tidemq fish/vendor_completions.d/tidemq.fish; do
	[ -s "/usr/share/$file" ]
done

# It runs with its configuration, as its user.
install -d -o tidemq -g tidemq -m 700 /var/lib/tidemq
no_http=
! tidemq help serve | grep -q -e '^  --http ' || no_http='--http none'
# shellcheck disable=SC2086 # two words or none
setpriv --reuid tidemq --regid tidemq --clear-groups tidemq serve --config /etc/tidemq/tidemq.lua \
	--listen 127.0.0.1:0 $no_http >out 2>err &
broker=$!
wait_for grep -q '^listening on' out
TIDEMQ_URL=tide://$(sed -n 's/^listening on //p' out)
export TIDEMQ_URL
tidemq declare queue jobs
tidemq pub - jobs hello
[ "$(tidemq get jobs --format %p)" = hello ]
tidemq pub - jobs kept
kill "$broker"
wait "$broker"
cat err
[ "$(stat -c %U:%a /var/lib/tidemq)" = tidemq:700 ]
tidemq check /etc/tidemq/rules

change_conffiles
make_next
dpkg -i --force-confold tidemq_next.deb
expect_conffiles

apt-get remove -q -y tidemq
[ ! -e /usr/bin/tidemq ] && [ -e /etc/tidemq/tidemq.lua ] && [ -d /var/lib/tidemq/appendonlydir ]
apt-get purge -q -y tidemq
[ ! -e /var/lib/tidemq ] && [ ! -e /usr/share/tidemq ]
[ "$(find /etc/tidemq -type f)" = /etc/tidemq/rules/filter/10-mine.lua ]
