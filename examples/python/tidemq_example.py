#!/usr/bin/env python3
"""tidemq_example.py [HOST [PORT]]: publish, consume, fail once, acknowledge.

A client of the line protocol in Python, with only the standard library. Copy the
class `Client` and extend it. docs/protocol.md is the reference.
"""

import json
import socket
import sys
from urllib.parse import quote, unquote_to_bytes

QUEUE = "example.python"


class Refused(Exception):
    """The broker answered ERR. The args are its code and its sentence."""


class Message:
    """A message from the broker; headers and payload are bytes."""

    def __init__(self, words, payload):
        self.sid, self.tag, attempt, self.exchange, self.key = words[:5]
        self.attempt = int(attempt)
        self.headers = {}
        for word in words[5:-1]:
            name, _, value = word.partition("=")
            if name.startswith("h:"):
                self.headers[name[2:]] = unquote_to_bytes(value)
        self.payload = payload


class Client:
    """One connection. `request` waits for a reply; messages wait for `next`."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.input = self.socket.makefile("rb")
        self.messages = []

    def request(self, line, payload=None):
        """Send a request and return the words after OK, or the document of DATA."""
        if payload is not None:
            line = f"{line} {len(payload)}\r\n".encode() + payload
        else:
            line = line.encode()
        self.socket.sendall(line + b"\r\n")
        while True:
            kind, rest = self._read()
            if kind == "OK":
                return rest
            if kind == "DATA":
                return json.loads(self._read_body(rest))
            if kind == "ERR":
                raise Refused(*rest.split(" ", 1))

    def next(self):
        """Wait for the next message and return it."""
        while not self.messages:
            self._read()
        return self.messages.pop(0)

    def _read(self):
        """Read a line. Keep a message, ignore an event."""
        line = self.input.readline()
        if not line:
            raise ConnectionError("the broker closed the connection")
        kind, _, rest = line.decode().rstrip("\r\n").partition(" ")
        if kind == "MSG":
            self.messages.append(Message(rest.split(" "), self._read_body(rest)))
        return kind, rest

    def _read_body(self, words):
        length = int(words.rsplit(" ", 1)[-1])
        return self.input.read(length + 2)[:-2]


def main():
    host = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 7310
    client = Client(host, port)

    facts = client.request("HELLO name=python-example")
    print("connected to", facts["server"], "protocol", facts["protocol"])

    client.request(f"DECLARE queue {QUEUE} durable=0")
    for n in range(1, 4):
        note = quote(f"number {n}")
        words = client.request(f"PUB - {QUEUE} h:note={note}", f"job {n}".encode())
        print("published to", words.split()[1], "queue")

    client.request(f"SUB {QUEUE} worker prefetch=1")
    done = 0
    while done < 3:
        message = client.next()
        print(f"got {message.payload.decode()!r}, note {message.headers['note'].decode()!r},",
              f"attempt {message.attempt}")
        if message.payload == b"job 2" and message.attempt == 1:
            client.request(f"NACK {message.tag} delay=50ms")
            continue
        client.request(f"ACK {message.tag}")
        done += 1

    client.request(f"DELETE queue {QUEUE}")
    try:
        client.request(f"GET {QUEUE}")
    except Refused as error:
        print("refused:", error.args[0])
    client.request("QUIT")


if __name__ == "__main__":
    main()
