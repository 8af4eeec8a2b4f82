#!/bin/sh
# in_service.sh: in a root that has booted with systemd: install, start, use, kill, upgrade,
# remove, purge. test_packages.sh runs it there.
set -eux
cd /packages
# shellcheck source=tests/packages/in_common.sh
. ./in_common.sh
export SYSTEMD_PAGER=cat

answers() { tidemq ping >/dev/null 2>&1; }
pid_of_service() { systemctl show --value -p MainPID tidemq; }
is_another() { [ "$(pid_of_service)" != "$1" ] && answers; }

systemctl is-system-running --wait || systemctl --failed
cat /proc/1/comm

# Debian starts and enables what it installs.
dpkg -i tidemq_0*.deb
wait_for answers
systemctl is-enabled tidemq
systemctl status --no-pager tidemq
systemd-analyze verify --man=no tidemq.service
[ "$(stat -c %U:%G:%a /var/lib/tidemq)" = tidemq:tidemq:700 ]
# The HTTP port is open too.
bash -c 'exec 3<>/dev/tcp/127.0.0.1/7311
	printf "GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" >&3
	grep -q "^HTTP/1.1 200 " <&3'

# It has no privilege, and its Redis is its child.
grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' "/proc/$(pid_of_service)/status"
grep -q '^CapEff:.0*$' "/proc/$(pid_of_service)/status"
grep -q '^Seccomp:.2$' "/proc/$(pid_of_service)/status"
[ "$(wc -w <"/proc/$(pid_of_service)/task/$(pid_of_service)/children")" = 1 ]

# Only what it needs to know of the machine. The figure is that of the systemd that looks.
systemd-analyze security --no-pager tidemq.service | tee security
exposure=$(sed -n 's/.*Overall exposure level for tidemq.service: \([0-9]*\)\..*/\1/p' security)
[ "$exposure" -lt 2 ]

# A message survives kill -9 of everything, a restart, and an upgrade.
tidemq declare queue jobs
tidemq pub - jobs first
before=$(pid_of_service)
systemctl kill -s KILL tidemq
wait_for is_another "$before"
tidemq pub - jobs second
systemctl reload tidemq
systemctl restart tidemq
wait_for answers

change_conffiles
make_next
before=$(pid_of_service)
dpkg -i --force-confold tidemq_next.deb
wait_for is_another "$before"
expect_conffiles
[ "$(tidemq get jobs --max 2 --format '%p ')" = 'first second ' ]

# A Unix socket for a group, and candidate rules that the service can write.
[ "$(stat -c %U:%a /var/lib/tidemq/candidates)" = tidemq:700 ]
sed -i 's|^  -- listen = .*|  ["rules-candidates"] = "/var/lib/tidemq/candidates", listen = { "127.0.0.1:7310", "unix:/run/tidemq/socket" }, ["socket-mode"] = "0660",|' \
	/etc/tidemq/tidemq.lua
systemctl restart tidemq
wait_for answers
[ "$(stat -c %U:%G:%a /run/tidemq/socket)" = tidemq:tidemq:660 ]
body='{"files":{"retry/mine.lua":"return { decide = function() return 5 end }"}}'
bash -c 'exec 3<>/dev/tcp/127.0.0.1/7311
	printf "PUT /api/rules/candidate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" "${#1}" "$1" >&3
	cat <&3' upload "$body" | tee answer
grep '"fit":true' answer
find /var/lib/tidemq/candidates/uploads -name mine.lua | grep .

# An ordered stop, which systemd takes for one.
systemctl stop tidemq
[ "$(systemctl show --value -p Result tidemq)" = success ]
[ "$(systemctl show --value -p ExecMainStatus tidemq)" = 0 ]
journalctl --no-pager -u tidemq -n 40
# On a fast machine these were more than the five starts in ten seconds that systemd allows.
systemctl reset-failed tidemq
systemctl start tidemq
wait_for answers

dpkg -r tidemq
if systemctl is-active tidemq; then exit 1; fi
[ -d /var/lib/tidemq/appendonlydir ]
dpkg -P tidemq
[ ! -e /var/lib/tidemq ]
if systemctl cat tidemq; then exit 1; fi
[ "$(find /etc/tidemq -type f)" = /etc/tidemq/rules/filter/10-mine.lua ]
