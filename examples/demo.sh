#!/usr/bin/env bash
# demo.sh BINARY: shows in a minute what tidemq does. It works in a directory of its own.
set -euo pipefail
binary=$(readlink -f "${1:-${TIDEMQ:-build/tidemq}}")
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/tidemq-demo.XXXXXX")
broker=

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ tidemq %s\n' "$*"; "$binary" "$@"; }

start() {
  : >"$dir/out"
  "$binary" serve --http none --listen 127.0.0.1:0 --data "$dir/data" --rules "$dir/rules" >"$dir/out" 2>>"$dir/log" &
  broker=$!
  local tries=0
  until grep -q '^listening on ' "$dir/out"; do
    tries=$((tries + 1))
    if [ $tries -gt 400 ] || ! kill -0 $broker 2>/dev/null; then cat "$dir/log" >&2; exit 1; fi
    sleep 0.05
  done
  TIDEMQ_URL=tide://$(sed -n 's/^listening on //p' "$dir/out")/
  export TIDEMQ_URL
}

finish() {
  if [ -n "$broker" ]; then kill "$broker" 2>/dev/null || true; wait "$broker" 2>/dev/null || true; fi
  rm -rf "$dir"
}
trap finish EXIT

generation() { "$binary" stats --json | grep -o '"rules_generation": *[0-9]*' | grep -o '[0-9]*$'; }

cd "$root"
mkdir -p "$dir/rules/routing"
start

say '1. A topic exchange and three queues'
run declare exchange orders topic
run declare queue europe
run declare queue paid
run declare queue everything
run bind europe orders 'orders.eu.#'
run bind paid orders '#.paid'
run bind everything orders '#'
run pub orders orders.eu.paid 'order 1'
run list queues

say '2. A rule is edited: orders from the island go to their own queue'
before=$(generation)
cat >"$dir/rules/routing/topic.lua" <<'LUA'
-- It takes the place of the shipped one. Like topic, but a message with the header "island" does not count as Europe.
local trie = require "tide.topic_trie"

return {
  new = trie.new,
  bind = trie.insert,
  unbind = trie.remove,
  route = function(index, msg, to)
    local key = msg.key
    if msg.headers.island then key = key:gsub("%.eu%.", ".island.") end
    trie.match(index, key, to)
  end,
}
LUA
echo "(saved rules/routing/topic.lua; the broker notices by itself)"
until [ "$(generation)" != "$before" ]; do sleep 0.05; done
run declare queue island
run bind island orders 'orders.island.#'
run pub --header island=yes orders orders.eu.paid 'order 2'
run list queues
run explain --header island=yes orders orders.eu.paid

say '3. A message is refused: its queue backs off, longer each time'
run declare queue jobs retry=exponential retry.base=400ms retry.max=5
run pub - jobs 'a job that fails'
run get --nack jobs
run peek --state delayed jobs
run get --wait 5s --nack jobs
run peek --state delayed jobs

say '4. kill -9 of the broker and of its Redis: nothing confirmed is gone'
run pub --count 1000 - europe 'confirmed'
redis=$(redis-cli -s "$dir/data/redis.sock" info server | tr -d "\r" | sed -n "s/^process_id://p")
kill -9 "$broker" "$redis"
wait "$broker" 2>/dev/null || true
echo "(both are dead; starting again)"
start
run list queues
run stats europe
say 'Done.'
