#!/bin/sh
# run.sh [URL]: publish some orders, and show what becomes of them. Run setup.sh first.
set -eu
url=${1:-tide://127.0.0.1:7310/}

tide() {
	verb=$1
	shift
	"${TIDEMQ:-tidemq}" "$verb" --url "$url" "$@"
}

order() {
	key=$1
	tier=$2
	shift 2
	tide pub --header "tier=$tier" orders "$key" "$*" >/dev/null
}

order orders.eu.placed standard 'a book for Ada'
order orders.us.placed silver 'a lamp for Bob'
order orders.eu.placed gold 'a piano for Cleo'
order orders.us.cancelled standard 'no lamp for Dan'

for queue in warehouse.eu warehouse.us audit; do
	echo "-- $queue"
	tide get --max 10 "$queue"
done

echo '-- billing: gold before silver before standard'
tide get --max 10 --format '%h: %p\n' billing

echo '-- an order that the bank refuses, four times'
order orders.eu.placed standard 'a yacht for Eve'
tide get audit >/dev/null
tide get warehouse.eu >/dev/null
for _ in 1 2 3 4; do
	tide get --wait 10s --nack --format 'attempt %a is refused\n' billing
done

echo '-- orders.failed'
tide get --wait 10s --format '%p\n%H' orders.failed
