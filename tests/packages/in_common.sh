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
	mkdir -p /etc/tidemq/rules/filter
	echo 'return { publish = function() end }' >/etc/tidemq/rules/filter/10-mine.lua
}

# A package of a later version, whose scripts are others.
make_next() {
	rm -rf next
	dpkg-deb -R "$(ls tidemq_0*.deb)" next
	sed -i 's/^Version: .*/&+next/' next/DEBIAN/control
	echo '-- next' >>next/etc/tidemq/tidemq.lua
	echo '-- next' >>next/usr/share/tidemq/rules/retry/none.lua
	dpkg-deb --root-owner-group -b next tidemq_next.deb
}

# After the upgrade what was changed or added is as it was; the rest is new.
expect_conffiles() {
	dpkg-query -W tidemq | grep next
	[ "$(tail -n 1 /etc/tidemq/tidemq.lua)" = '-- mine' ]
	[ "$(tail -n 1 /usr/share/tidemq/rules/retry/none.lua)" = '-- next' ]
	[ -e /etc/tidemq/rules/filter/10-mine.lua ]
}
