#!/bin/sh
# run.sh [URL]: one log of a shop's events, two groups that read it, a replay, and a table
# that is kept as a log. $TIDEMQ is the program, default: tidemq.
set -eu
url=${1:-tide://127.0.0.1:7310/}

tide() {
	verb=$1
	shift
	"${TIDEMQ:-tidemq}" "$verb" --url "$url" "$@"
}

event() {
	tide pub shop "$1" "$2" >/dev/null
}

# The next messages of a group, in the order of its partitions: `group NAME COUNT`. `sub`
# acknowledges what it has printed.
group() {
	echo "$1:"
	tide sub shop.events --group "$1" --count "$2" --timeout 10s \
		--format '%n:%o %k %p\n' 2>/dev/null | sort
}

# Keys are <what>.<who>: the key decides the partition, so that the events of one order
# stay in their order.
tide declare exchange shop topic
tide declare topic shop.events partitions=2 retention=7d
tide bind shop.events shop 'order.*'

# The last price of each article, kept for ever.
tide declare topic shop.prices partitions=1 compact=key
tide bind shop.prices shop 'price.*'

echo '-- two groups read the same log'
event order.17 'placed by Ada'
event order.18 'placed by Bob'
event order.17 'paid'
group billing 3
group dashboard 3

echo '-- each goes on where it is'
event order.18 'cancelled'
group billing 1
event order.19 'placed by Cleo'
group dashboard 2

echo '-- billing had a bug: it reads everything since yesterday once more'
tide seek shop.events billing 1d
group billing 5

echo '-- a look at one place, by nobody'
tide get shop.events --partition 1 --offset 1 --format '%n:%o %k %p\n'

echo '-- a table: the last message of each key counts, and an empty one removes the key'
event price.book 12
event price.lamp 30
event price.book 14
event price.piano 900
event price.lamp ''
tide get shop.prices --partition 0 --offset first --max 1000 --format '%k %p\n' |
	awk '{ price[$1] = $2 } END { for (k in price) if (price[k] != "") print k, price[k] }' |
	sort

tide delete topic shop.events
tide delete topic shop.prices
tide delete exchange shop
