#!/bin/sh
# run.sh BINARY ARGS...: start a broker in the foreground, with something to try.
set -eu
cat <<'HINTS'
A broker starts here; Ctrl-C stops it. Paste these lines into another terminal:

  printf 'DECLARE queue hello\r\nQUIT\r\n'      | nc 127.0.0.1 7310
  printf 'PUB - hello 5\r\nworld\r\nQUIT\r\n'   | nc 127.0.0.1 7310
  printf 'GET hello ack=auto\r\nQUIT\r\n'       | nc 127.0.0.1 7310

HINTS
exec "$@"
