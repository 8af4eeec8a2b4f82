#!/bin/sh
# setup.sh [URL]: declare the exchanges, queues and bindings of the order flow.
#
# The broker must run with the rules of this directory:
#
#     tidemq serve --rules examples/order-flow/rules
#
# A second run changes nothing. $TIDEMQ is the program, default: tidemq.
set -eu
url=${1:-tide://127.0.0.1:7310/}

tide() {
	verb=$1
	shift
	"${TIDEMQ:-tidemq}" "$verb" --url "$url" "$@"
}

# Keys are orders.<region>.<kind>: orders.eu.placed, orders.us.cancelled, ...
tide declare exchange orders topic

# An order that cannot be billed ends here. Its headers say why.
tide declare exchange orders.dead fanout
tide declare queue orders.failed
tide bind orders.failed orders.dead -

# Each region has a warehouse. It gets orders and cancellations, in the order of arrival.
for region in eu us; do
	tide declare queue "warehouse.$region"
	tide bind "warehouse.$region" orders "orders.$region.#"
done

# Billing gets the new orders of all regions, VIPs first. When the bank does not
# answer, it tries again after 100 ms, 200 ms and 400 ms, and then gives up.
tide declare queue billing \
	priority=vip priority.gold=1h \
	retry=exponential retry.base=100ms retry.factor=2 retry.max=4 \
	ack-timeout=10s dead-letter=orders.dead
tide bind billing orders orders.*.placed

# The auditors get everything.
tide declare queue audit
tide bind audit orders '#'
