#!/bin/sh
# in_common.sh: what in_bare.sh and in_service.sh share.

# COMMAND...: until it succeeds, for 30 seconds.
wait_for() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ "$tries" -lt 300 ] || return 1
		sleep 0.1
	done
}

# What an administrator does.
change_conffiles() {
	echo '-- mine' >>/etc/tidemq/tidemq.lua
	echo '-- mine' >>/etc/tidemq/rules/retry/fixed.lua
	echo 'return { publish = function() end }' >/etc/tidemq/rules/filter/10-mine.lua
	rm /etc/tidemq/rules/schedule/heartbeat.lua
}

# A package of a later version, whose scripts are others.
make_next() {
	rm -rf next
	dpkg-deb -R "$(ls tidemq_0*.deb)" next
	sed -i 's/^Version: .*/&+next/' next/DEBIAN/control
	for file in tidemq.lua rules/retry/fixed.lua rules/retry/none.lua rules/schedule/heartbeat.lua; do
		echo '-- next' >>"next/etc/tidemq/$file"
	done
	dpkg-deb --root-owner-group -b next tidemq_next.deb
}

# After the upgrade what was changed is as it was, and so is what was removed; the rest is new.
expect_conffiles() {
	dpkg-query -W tidemq | grep next
	[ "$(tail -n 1 /etc/tidemq/tidemq.lua)" = '-- mine' ]
	[ "$(tail -n 1 /etc/tidemq/rules/retry/fixed.lua)" = '-- mine' ]
	[ "$(tail -n 1 /etc/tidemq/rules/retry/none.lua)" = '-- next' ]
	[ ! -e /etc/tidemq/rules/schedule/heartbeat.lua ]
	[ -e /etc/tidemq/rules/filter/10-mine.lua ]
}
