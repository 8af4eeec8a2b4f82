"""The codec: every way in which the input may be cut, and what a request may not contain."""

import datetime
import random
import unittest

from tidemq import codec, requests, url
from tidemq.codec import Data, Decoder, Err, Event, Message, Ok
from tidemq.errors import ProtocolError

BYTES = bytes(range(256))

INPUT = (
    b"OK\r\n"
    b"OK 687f6b32f9000000 1 duplicate 3:17\n"
    b"@7 OK\r\n"
    b"ERR not-found there is no queue 'x'\r\n"
    b'DATA 12\r\n{"a":"\r\nOK"}\r\n'
    b"MSG s1 1 1 - jobs id=687f6b32f9000000 ts=1795257322468 pri=9 redelivered h:note=50%25%20off"
    b" later=word flag 5\r\nhello\r\n"
    b"@65535 MSG - - 2 ex - id=687f6b32f9000001 ts=1 partition=3 offset=42 "
    b"h:b=\xff%00%0d%0a 258\r\n"
    + b"\r\n" + BYTES + b"\r\n"
    b"MSG s1 2 1 - jobs id=a ts=1 0\r\n\r\n"
    b"EVT closed shutdown the broker is stopping\r\n"
    b"@2 EVT assigned s 0,1\r\n"
    b"EVT heartbeat\r\n"
)

ITEMS = [
    Ok(0, []),
    Ok(0, ["687f6b32f9000000", "1", "duplicate", "3:17"]),
    Ok(7, []),
    Err(0, "not-found", "there is no queue 'x'"),
    Data(0, b'{"a":"\r\nOK"}'),
    Message(0, "s1", 1, 1, "", "jobs", b"hello", "687f6b32f9000000", 1795257322468, 9,
            redelivered=True, headers={"note": "50% off"}),
    Message(65535, "-", None, 2, "ex", "", b"\r\n" + BYTES, "687f6b32f9000001", 1, 0, 3, 42,
            headers={"b": "\udcff\0\r\n"}),
    Message(0, "s1", 2, 1, "", "jobs", b"", "a", 1),
    Event(0, "closed", ["shutdown", "the", "broker", "is", "stopping"]),
    Event(2, "assigned", ["s", "0,1"]),
    Event(0, "heartbeat", []),
]


def decode(*pieces):
    decoder = Decoder()
    return [item for piece in pieces for item in decoder.feed(piece)]


class Decoding(unittest.TestCase):
    def test_everything_that_a_broker_says(self):
        self.assertEqual(ITEMS, decode(INPUT))

    def test_input_in_two_pieces_cut_anywhere(self):
        for cut in range(len(INPUT) + 1):
            self.assertEqual(ITEMS, decode(INPUT[:cut], INPUT[cut:]), f"cut at {cut}")

    def test_input_in_pieces_of_every_size(self):
        for size in range(1, len(INPUT)):
            pieces = [INPUT[at:at + size] for at in range(0, len(INPUT), size)]
            self.assertEqual(ITEMS, decode(*pieces), f"pieces of {size}")

    def test_input_in_pieces_at_random(self):
        chance = random.Random(1)
        for _ in range(200):
            cuts = sorted(chance.randrange(len(INPUT)) for _ in range(chance.randrange(12)))
            ends = [0, *cuts, len(INPUT)]
            pieces = [INPUT[a:b] for a, b in zip(ends, ends[1:])]
            self.assertEqual(ITEMS, decode(*pieces), f"cuts at {cuts}")

    def test_a_consumer_that_stops_between_two_items_loses_none(self):
        decoder = Decoder()
        found = []
        for item in decoder.feed(INPUT):
            found.append(item)
            break
        while len(found) < len(ITEMS):
            found.append(next(iter(decoder.feed(b""))))
        self.assertEqual(ITEMS, found)

    def test_what_is_no_line_of_the_protocol(self):
        for text in (b"HTTP/1.1 400 Bad Request\r\n", b"\r\n", b"MSG s1 1\r\n",
                     b"MSG s x y z k 1\r\n", b"DATA many\r\n", b"DATA -1\r\n",
                     b"DATA 99999999999\r\n", b"@x OK\r\n", b"EVT\r\n",
                     b"ERR\r\n", b"DATA 1\r\nabc", b"MSG s 1 1 - k 1\r\naXY"):
            with self.assertRaises(ProtocolError, msg=text):
                decode(text)

    def test_a_line_without_an_end(self):
        decoder = Decoder()
        with self.assertRaises(ProtocolError):
            for _ in range(1000):
                list(decoder.feed(b"x" * 1000))


class Encoding(unittest.TestCase):
    def test_a_request_and_its_payload(self):
        self.assertEqual(b"PING\r\n", codec.encode("PING"))
        self.assertEqual(b"@3 PUB - q 3\r\n\r\n\0\r\n", codec.encode("PUB - q", b"\r\n\0", 3))
        self.assertEqual(b"PUB - q 0\r\n\r\n", codec.encode("PUB - q", b""))
        with self.assertRaises(ValueError):
            codec.encode("x" * 65535)

    def test_values_come_back_as_they_were(self):
        text = BYTES.decode("utf-8", "surrogateescape") + "ü€😀"
        self.assertEqual(text, codec.unquote(codec.quote(text)))
        self.assertEqual(codec.quote(BYTES), codec.quote(BYTES.decode("utf-8", "surrogateescape")))
        self.assertNotRegex(codec.quote(BYTES), r"[\0- \x7f]")
        self.assertEqual("50%25%20off", codec.quote("50% off"))

    def test_durations(self):
        for expected, value in (("5s", "5s"), ("5000ms", 5), ("250ms", 0.25),
                                ("90000ms", datetime.timedelta(seconds=90))):
            self.assertEqual(expected, codec.milliseconds(value))
        self.assertEqual(90_000, codec.parse_duration("90s"))
        self.assertIsNone(codec.parse_duration("first"))

    def test_options(self):
        found = list(codec.options({"dead_letter": "-/a b", "ttl": 2, "max_length": 2, "from_": 7,
                                    "durable": False, "exclusive": True, "rate": None}))
        self.assertEqual(["dead-letter=-/a%20b", "ttl=2000ms", "max-length=2", "from=7",
                          "durable=0", "exclusive"], found)

    def test_no_name_breaks_the_line(self):
        for name in ("a b", "a\r\nQUIT", "a\0", "\t", "\x7f"):
            with self.assertRaises(ValueError):
                requests.declare_queue(name)
            with self.assertRaises(ValueError):
                requests.publish(name)
            with self.assertRaises(ValueError):
                requests.publish("q", headers={name: "x"})
        with self.assertRaises(ValueError):
            requests.request("PING\r\nQUIT")

    def test_requests(self):
        for expected, request in (
                ("DECLARE queue - exclusive", requests.declare_queue(exclusive=True)),
                ("DECLARE queue q retry=fixed retry.delay=1s",
                 requests.declare_queue("q", retry="fixed", options={"retry.delay": "1s"})),
                ("DECLARE exchange x topic internal",
                 requests.declare_exchange("x", "topic", internal=True)),
                ("DELETE queue q if-empty", requests.delete_queue("q", if_empty=True)),
                ("BIND q x - h:region=eu h?express",
                 requests.bind("q", "x", options={"h:region": "eu", "h?express": True})),
                ("UNBIND y x a.# dest=exchange", requests.unbind("y", "x", "a.#", to="exchange")),
                ("PUB x - id=a%20b pri=9 delay=1500ms expect=0 must h:a=%25",
                 requests.publish("", exchange="x", id="a b", priority=9, delay=1.5, expect=0,
                                  must=True, headers={"a": "%"})),
                ("GET a b max=2 wait=0ms", requests.get("a", "b", max=2, wait=0)),
                ("GET t partition=0 offset=5", requests.get("t", partition=0, offset=5)),
                ("SEEK t g first", requests.seek("t", "g", "first"))):
            self.assertEqual(expected, request.line)

    def test_requests_that_would_confuse_the_client(self):
        for line in ("PING quiet", "@1 PING", "begin", "QUIT", "HELLO", "SUB q s"):
            with self.assertRaises(ValueError):
                requests.request(line)

    def test_messages_that_cannot_be_settled_together(self):
        first = Message(0, "s", 1, 1, "", "q", connection=1)
        for other in (Message(1, "s", 1, 1, "", "q", connection=1),
                      Message(0, "s", 1, 1, "", "q", connection=2),
                      Message(0, "s", None, 1, "", "q", connection=1)):
            with self.assertRaises(ValueError):
                requests.ack(first, other)
        with self.assertRaises(ValueError):
            requests.ack()


class Urls(unittest.TestCase):
    def test_urls(self):
        first, second, third, fourth = url.parse(
            "tide://ann:p%40ss@host/shop, tides://[::1]:7311,tide+unix:/run/t%20q?vhost=a&user=b+c,"
            "tide://h:1/")
        self.assertEqual(("host", 7310, "shop", "ann", "p@ss", False),
                         (first.host, first.port, first.vhost, first.user, first.password,
                          first.is_tls))
        self.assertEqual(("::1", 7311, "/", True),
                         (second.host, second.port, second.vhost, second.is_tls))
        self.assertEqual(("/run/t q", "a", "b+c"), (third.path, third.vhost, third.user))
        self.assertEqual(1, fourth.port)

    def test_a_password_is_in_no_text(self):
        address = url.parse("tide://ann:secret@host/")[0]
        self.assertNotIn("secret", f"{address} {address!r}")

    def test_wrong_urls(self):
        for text in ("", "host:7310", "http://host/", "tide://", "tide://:7310/", "tide://h:x/",
                     "tide://h:0/", "tide://h:70000/", "tide://u:secret@h:x/", "tide+unix:",
                     "tide+unix:/p?colour=red", "tide://h/?vhost=a"):
            with self.assertRaises(ValueError) as caught:
                url.parse(text)
            self.assertNotIn("secret", str(caught.exception))
        with self.assertRaises(ValueError):
            url.parse([])


if __name__ == "__main__":
    unittest.main()
