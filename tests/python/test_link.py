"""The link: what is sent, sent again and given up, byte for byte, without a broker."""

import unittest

from tidemq import requests, url
from tidemq.errors import Cancelled, ConnectionLost, Error, Refused
from tidemq.link import Link, Options

HELLO = b'DATA 14\r\n{"protocol":1}\r\n'


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Case(unittest.TestCase):
    def link(self, urls="tide://h/", **options):
        self.said = []
        self.clock = Clock()
        options.setdefault("on_state", lambda *said: self.said.append(said))
        self.under_test = Link(url.parse(urls), Options(**options), self.clock)
        return self.under_test

    def up(self, urls="tide://h/", **options):
        """A link that is up, and the line of its HELLO is gone."""
        link = self.link(urls, **options)
        link.connected()
        link.feed(HELLO)
        self.out()
        return link

    def out(self):
        return self.under_test.take_output().decode("latin-1").replace("\r\n", "|")

    def again(self, *expected):
        """A new connection; what is sent after HELLO, in rounds, each of which is answered."""
        self.under_test.connected()
        self.out()
        self.under_test.feed(HELLO)
        for lines, answer in expected:
            self.assertEqual(lines, self.out())
            self.under_test.feed(answer)


class Connecting(Case):
    def test_hello_names_user_password_and_vhost(self):
        link = self.link("tide://a%20b:p%25@h/shop", name="n", heartbeat=5, prefetch=3)
        link.connected()
        self.assertEqual("HELLO user=a%20b pass=p%25 vhost=shop name=n heartbeat=5000ms "
                         "prefetch=3|", self.out())
        self.assertFalse(link.is_up)
        link.feed(HELLO)
        self.assertTrue(link.is_up)
        self.assertEqual([("connected", "tide://h:7310/shop")], self.said)

    def test_requests_before_that_are_sent_after_it(self):
        link = self.link()
        pending = link.submit(requests.ping())
        link.connected()
        self.assertEqual("HELLO|", self.out())
        link.feed(HELLO)
        self.assertEqual("PING|", self.out())
        link.feed(b"OK\r\n")
        self.assertIsNone(pending.result())

    def test_a_refused_login_is_the_end(self):
        link = self.link("tide://u:secret@h/,tide://i/")
        pending = link.submit(requests.ping())
        link.connected()
        with self.assertRaises(Refused) as caught:
            link.feed(b"ERR denied user or password is wrong\r\n")
        link.lost(caught.exception)
        with self.assertRaises(Refused) as caught:
            pending.result()
        self.assertEqual("denied", caught.exception.code)
        self.assertEqual([("gave up", "user or password is wrong")], self.said)
        with self.assertRaises(Refused):
            link.submit(requests.ping())

    def test_a_login_that_is_refused_later_is_the_end_too(self):
        link = self.up()
        inbox, pending = link.subscribe(0, "q", None, {})
        link.feed(b"OK\r\n")
        pending.result()
        link.feed(b"EVT closed denied user 'u' was deleted\r\n")
        link.lost(ConnectionLost("end of file"))
        self.assertEqual(("lost", "user 'u' was deleted"), self.said[-1])
        link.connected()
        with self.assertRaises(Refused) as caught:
            link.feed(b"ERR denied no such user\r\n")
        link.lost(caught.exception)
        self.assertEqual(("gave up", "no such user"), self.said[-1])
        with self.assertRaises(Refused):
            inbox.take()

    def test_the_first_connection_tries_each_url_once(self):
        link = self.link("tide://a/,tide://b/")
        pending = link.submit(requests.ping())
        self.assertEqual("a", link.address.host)
        link.lost(OSError("refused"))
        self.assertEqual(("b", 0.0), (link.address.host, link.delay()))
        link.lost(OSError("refused too"))
        with self.assertRaises(ConnectionLost) as caught:
            pending.result()
        self.assertEqual("refused too", caught.exception.text)

    def test_backoff_doubles_with_each_round_of_the_urls(self):
        link = self.up("tide://a/,tide://b/", backoff_first=1, backoff_max=5)
        link.lost(OSError("cut"))
        for longest in (1, 2, 4, 5, 5):
            self.assertTrue(longest / 2 <= link.delay() <= longest)
            self.assertEqual("a", link.address.host)
            link.lost(OSError("refused"))
            self.assertEqual(("b", 0.0), (link.address.host, link.delay()))
            link.lost(OSError("refused"))
        link.connected()
        link.feed(HELLO)
        link.lost(OSError("cut"))
        self.assertLessEqual(link.delay(), 1)

    def test_it_gives_up_after_the_time_that_was_given(self):
        link = self.up(give_up_after=10)
        link.lost(OSError("cut"))
        pending = link.submit(requests.ping())
        self.clock.now += 9
        link.lost(OSError("refused"))
        self.assertFalse(pending.is_done)
        self.clock.now += 1
        link.lost(OSError("refused"))
        self.assertIn("gave up after 10 s: refused", str(pending.error))

    def test_without_reconnect_the_first_loss_is_the_end(self):
        link = self.up(reconnect=False)
        pending = link.submit(requests.publish("q"))
        self.assertEqual("PUB - q 0||", self.out())
        link.lost(OSError("cut"))
        with self.assertRaises(ConnectionLost):
            pending.result()
        self.assertIsNotNone(link.closed)

    def test_a_broker_that_does_not_answer(self):
        link = self.link(connect_timeout=3)
        link.connected()
        self.assertAlmostEqual(3, link.tick(), delta=0.01)
        self.clock.now += 3
        self.assertAlmostEqual(0, link.tick(), delta=0.01)
        with self.assertRaises(ConnectionLost):
            link.tick()

    def test_heartbeats(self):
        link = self.up(heartbeat=4)
        self.assertAlmostEqual(2, link.tick(), delta=0.01)
        self.clock.now += 2
        link.tick()
        self.assertEqual("|", self.out())
        self.clock.now += 5
        link.feed(b"EVT heartbeat\r\n")
        self.clock.now += 8
        link.tick()
        self.clock.now += 0.1
        self.assertAlmostEqual(0, link.tick(), delta=0.01)
        with self.assertRaises(ConnectionLost):
            link.tick()

    def test_what_has_arrived_is_read_before_the_broker_is_called_silent(self):
        link = self.link(heartbeat=4, connect_timeout=3)
        link.connected()
        for said in HELLO, b"EVT heartbeat\r\n", b"EVT heartbeat\r\n":
            self.clock.now += 100
            self.assertAlmostEqual(0, link.tick(), delta=0.01)
            link.feed(said)
            link.tick()

    def test_without_heartbeats_there_is_nothing_to_do(self):
        self.assertIsNone(self.up().tick())

    def test_what_no_broker_says_ends_the_connection(self):
        for text in (b"OK\r\n", b"MSG - 1 1 - q id=1 ts=1 0\r\n\r\n", b"hello\r\n", b"@9 OK\r\n"):
            with self.assertRaises(Error):
                self.up().feed(text)
        link = self.up()
        link.submit(requests.publish("q"))
        with self.assertRaises(Error):
            link.feed(b"OK\r\n")


class Repeating(Case):
    def test_a_publish_without_a_confirm_is_sent_again_with_the_same_id(self):
        link = self.up()
        first, second = link.submit(requests.publish("q", b"1")), link.submit(
            requests.publish("q", b"2", id="mine"))
        sent = self.out()
        self.assertRegex(sent, r"^PUB - q id=[0-9a-f]{32}-\d+ 1\|1\|PUB - q id=mine 1\|2\|$")
        link.lost(OSError("cut"))
        third = link.submit(requests.publish("q", b"3"))
        self.again((sent + f"PUB - q id={link._id}-{third.serial} 1|3|",
                    b"OK 1 1 duplicate\r\nOK 2 1\r\nOK 3 1\r\n"))
        self.assertTrue(first.result().duplicate)
        self.assertEqual("2", second.result().id)
        self.assertEqual("3", third.result().id)
        self.assertEqual("restored", self.said[-1][0])

    def test_ids_differ(self):
        link = self.up()
        link.submit(requests.publish("q"))
        one = self.out()
        link.submit(requests.publish("q"))
        self.assertNotEqual(one, self.out())

    def test_without_ids_a_publish_without_a_confirm_fails(self):
        link = self.up(ids=False)
        pending = link.submit(requests.publish("q"))
        self.assertEqual("PUB - q 0||", self.out())
        link.lost(OSError("cut"))
        with self.assertRaises(ConnectionLost):
            pending.result()

    def test_what_was_not_sent_is_sent_later_whatever_it_is(self):
        link = self.up()
        link.lost(OSError("cut"))
        link.submit(requests.request("PURGE q"))
        self.again(("PURGE q|", b"OK 0\r\n"))

    def test_what_may_have_been_carried_out_is_not_repeated(self):
        link = self.up()
        pending = [link.submit(request) for request in (
            requests.request("PURGE q"), requests.get("q", ack="auto"), requests.delete_queue("q"))]
        self.out()
        link.lost(OSError("cut"))
        for each in pending:
            with self.assertRaises(ConnectionLost):
                each.result()

    def test_a_get_is_repeated(self):
        link = self.up()
        pending = link.submit(requests.get("q", max=2))
        self.out()
        link.feed(b"OK 2\r\nMSG - 1 1 - q id=1 ts=1 1\r\na\r\n")
        link.lost(OSError("cut"))
        self.again(("GET q max=2|", b"OK 1\r\nMSG - 1 2 - q id=1 ts=1 redelivered 1\r\na\r\n"))
        self.assertEqual([2], [message.attempt for message in pending.result()])

    def test_what_nobody_waits_for_is_not_repeated(self):
        link = self.up()
        link.abandon(link.submit(requests.publish("q")))
        self.out()
        link.lost(OSError("cut"))
        link.abandon(link.submit(requests.publish("q")))
        self.again(("", b""))

    def test_a_message_dies_with_its_connection(self):
        link = self.up()
        pending = link.submit(requests.get("q", max=2))
        link.feed(b"OK 2\r\nMSG - 1 1 - q id=1 ts=1 1\r\na\r\nMSG - 2 1 - q id=2 ts=1 1\r\nb\r\n")
        first, second = pending.result()
        acked = link.submit(requests.ack(first))
        link.lost(OSError("cut"))
        with self.assertRaises(Refused) as caught:
            acked.result()
        self.assertEqual("lease-lost", caught.exception.code)
        with self.assertRaises(Refused):
            link.submit(requests.ack(second))
        self.again()
        with self.assertRaises(Refused):
            link.submit(requests.nack(second))
        self.assertEqual("", self.out())


class Restoring(Case):
    def test_declarations_bindings_channels_and_subscriptions(self):
        link = self.up()
        for request in (requests.declare_exchange("x", "topic"), requests.declare_queue("q"),
                        requests.declare_queue("gone"), requests.bind("q", "x", "a.#"),
                        requests.bind("gone", "x", "b.#"), requests.delete_queue("gone"),
                        requests.declare_queue("no", ttl="never")):
            link.submit(request)
        link.feed(b"OK\r\n" * 6 + b"ERR syntax 'never' is no duration\r\n")
        number, _ = link.open_channel(5)
        link.feed(b"@1 OK\r\n")
        link.subscribe(number, "q", "mine", {"prefetch": 2})
        link.feed(b"@1 OK\r\n")
        self.out()
        link.lost(OSError("cut"))
        self.again(("DECLARE exchange x topic|DECLARE queue q|BIND q x a.#|@1 OPEN prefetch=5|"
                    "STATS q|",
                    b'OK\r\nOK\r\nOK\r\n@1 OK\r\nDATA 13\r\n{"queue":"q"}\r\n'),
                   ("@1 SUB q mine prefetch=2|", b"@1 OK\r\n"))
        self.assertTrue(link.is_up)

    def test_a_name_that_the_broker_chose_is_asked_for_again(self):
        link = self.up()
        pending = link.submit(requests.declare_queue(exclusive=True))
        link.feed(b"OK gen-1\r\n")
        self.assertEqual("gen-1", pending.result())
        link.submit(requests.bind("gen-1", "x"))
        link.feed(b"OK\r\n")
        self.out()
        link.lost(OSError("cut"))
        self.again(("DECLARE queue gen-1 exclusive|BIND gen-1 x -|", b"OK\r\nOK\r\n"))
        link.submit(requests.delete_queue("gen-1"))
        link.feed(b"OK\r\n")
        self.out()
        link.lost(OSError("cut"))
        self.again(("", b""))

    def test_a_declaration_that_is_refused_is_told_and_forgotten(self):
        link = self.up()
        link.submit(requests.declare_queue("q"))
        link.feed(b"OK\r\n")
        self.out()
        link.lost(OSError("cut"))
        self.again(("DECLARE queue q|", b"ERR mismatch it has retry=fixed\r\n"))
        self.assertEqual([("not restored", "DECLARE queue q: mismatch: it has retry=fixed"),
                          ("restored", "tide://h:7310/")], self.said[-2:])
        link.lost(OSError("cut"))
        self.again(("", b""))

    def test_a_broker_that_is_not_ready_is_asked_again(self):
        link = self.up()
        link.submit(requests.declare_queue("q"))
        link.feed(b"OK\r\n")
        link.lost(OSError("cut"))
        link.connected()
        link.feed(HELLO)
        with self.assertRaises(ConnectionLost) as caught:
            link.feed(b"ERR store Redis is away\r\n")
        link.lost(caught.exception)
        self.assertEqual("retrying", self.said[-1][0])
        self.again(("DECLARE queue q|", b"OK\r\n"))
        self.assertTrue(link.is_up)

    def test_a_subscription_that_is_refused_ends(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "q", None, {"group": "g"})
        link.feed(b"OK\r\n")
        self.out()
        link.lost(OSError("cut"))
        self.again(("SUB q s1 group=g|", b"ERR not-found there is no queue 'q'\r\n"))
        with self.assertRaises(Refused):
            inbox.take()
        link.lost(OSError("cut"))
        self.again(("", b""))

    def test_a_subscription_whose_reply_was_lost_is_restored_once(self):
        link = self.up()
        _, pending = link.subscribe(0, "q", None, {"group": "g"})
        self.out()
        link.lost(OSError("cut"))
        self.again(("SUB q s1 group=g|", b"OK\r\n"))
        self.assertTrue(pending.is_done)

    def test_a_subscription_that_was_not_sent_is_sent_once(self):
        link = self.up()
        link.lost(OSError("cut"))
        link.subscribe(0, "q", None, {"group": "g"})
        self.again(("SUB q s1 group=g|", b"OK\r\n"))
        link.feed(b"MSG s1 1 1 - q id=1 ts=1 1\r\na\r\n")
        self.assertEqual(b"a", link._inboxes[0].take().payload)
        link.lost(OSError("cut"))
        self.again(("SUB q s1 group=g|", b"OK\r\n"))

    def test_messages_that_nobody_took_are_dropped_unless_they_need_no_ack(self):
        link = self.up()
        manual, _ = link.subscribe(0, "q", "m", {"group": "g"})
        auto, _ = link.subscribe(0, "q", "a", {"group": "h", "ack": "auto"})
        link.feed(b"OK\r\nOK\r\nMSG m 1 1 - q id=1 ts=1 1\r\na\r\n"
                  b"MSG a - 1 - q id=2 ts=1 1\r\nb\r\n")
        link.lost(OSError("cut"))
        self.assertIsNone(manual.take())
        self.assertEqual(b"b", auto.take().payload)

    def test_a_reader_goes_on_where_it_was_in_each_partition(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "t", None, {"from_": "first", "prefetch": 9})
        link.feed(b"OK\r\n"
                  b"MSG s1 1 1 - t id=1 ts=1 partition=0 offset=4 1\r\na\r\n"
                  b"MSG s1 2 1 - t id=1 ts=1 partition=0 offset=5 1\r\na\r\n"
                  b"MSG s1 3 1 - t id=1 ts=1 partition=1 offset=7 1\r\na\r\n")
        acked = [inbox.take() for _ in range(3)]
        link.submit(requests.ack(acked[1], acked[2]))
        link.feed(b"OK 2\r\n")
        self.out()
        for _ in range(2):
            link.lost(OSError("cut"))
            self.again(("STATS t|", b'DATA 16\r\n{"partitions":3}\r\n'),
                       ("SUB t s1.0 from=4 prefetch=9 partition=0|"
                        "SUB t s1.1 from=8 prefetch=9 partition=1|"
                        "SUB t s1.2 from=first prefetch=9 partition=2|", b"OK\r\nOK\r\nOK\r\n"))
        link.feed(b"MSG s1.0 1 1 - t id=1 ts=1 partition=0 offset=4 1\r\na\r\n")
        again = inbox.take()
        link.submit(requests.ack(again))
        link.feed(b"OK 1\r\n")
        self.out()
        link.lost(OSError("cut"))
        self.again(("STATS t|", b'DATA 16\r\n{"partitions":1}\r\n'),
                   ("SUB t s1.0 from=5 prefetch=9 partition=0|", b"OK\r\n"))

    def test_a_reader_of_what_is_new_misses_nothing(self):
        for start, expected in (({}, "from=5001ms"), ({"from_": "last"}, "from=5001ms"),
                                ({"from_": "2s"}, "from=7001ms"), ({"from_": 3}, "from=3")):
            link = self.up()
            link.subscribe(0, "t", None, start | {"partition": 1})
            link.feed(b"OK\r\n")
            self.out()
            self.clock.now += 5
            link.lost(OSError("cut"))
            self.again(("STATS t|", b'DATA 16\r\n{"partitions":2}\r\n'))
            self.assertIn(expected, self.out())

    def test_a_cancelled_subscription_tells_why_and_is_not_restored(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "q", None, {})
        link.feed(b"OK\r\nEVT cancelled s1 queue-deleted\r\n")
        with self.assertRaises(Cancelled):
            inbox.take()
        self.out()
        link.lost(OSError("cut"))
        self.again(("", b""))

    def test_unsubscribe_gives_back_what_nobody_took(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "q", None, {})
        link.feed(b"OK\r\nMSG s1 1 1 - q id=1 ts=1 1\r\na\r\nMSG s1 2 1 - q id=1 ts=1 1\r\nb\r\n")
        inbox.take()
        self.out()
        link.unsubscribe(inbox)
        self.assertEqual("UNSUB s1|", self.out())
        link.feed(b"MSG s1 3 1 - q id=1 ts=1 1\r\nc\r\nOK\r\n")
        self.assertEqual("NACK 2-3 requeue|", self.out())
        self.assertIsNone(inbox.take())
        self.assertTrue(inbox.is_ended)

    def test_what_nobody_took_goes_back_in_ranges_that_are_not_others(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "q", "a", {})
        link.subscribe(0, "q", "b", {})
        link.feed(b"OK\r\nOK\r\n")
        for tag in (1, 2, 3, 5, 6, 8):
            link.feed(f"MSG a {tag} 1 - q id={tag} ts=1 1\r\na\r\n".encode())
        link.feed(b"MSG b 7 1 - q id=7 ts=1 1\r\nb\r\n")
        self.out()
        link.unsubscribe(inbox)
        link.feed(b"OK\r\n")
        # Each by itself: one that is not held any more keeps no other one here.
        self.assertEqual("UNSUB a|NACK 1-3 requeue|NACK 5-6 requeue|NACK 8-8 requeue|", self.out())
        link.feed(b"OK 3\r\nERR lease-lost tag 5 is no longer held\r\nOK 1\r\n")

    def test_a_message_that_came_back_while_it_waited_is_taken_once(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "q", None, {})
        link.feed(b"OK\r\n")
        for tag in (1, 2, 3):
            link.feed(f"MSG s1 {tag} 1 - q id=a{tag} ts=1 1\r\na\r\n".encode())
        first = inbox.take()
        # The consumer has hung for a whole lease: all three come again.
        for tag in (1, 2, 3):
            link.feed(f"MSG s1 {tag + 3} 1 - q id=a{tag} ts=1 redelivered 1\r\na\r\n".encode())
        late = link.submit(requests.ack(first))
        link.feed(b"OK 1\r\n")
        self.assertEqual(1, late.result())
        self.assertEqual([5, 6], [inbox.take().tag, inbox.take().tag])
        self.assertIsNone(inbox.take())

    def test_two_messages_with_one_id_are_two(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "q", None, {})
        link.feed(b"OK\r\nMSG s1 1 1 - q id=a ts=1 1\r\na\r\nMSG s1 2 1 - q id=a ts=1 1\r\nb\r\n")
        self.assertEqual([b"a", b"b"], [inbox.take().payload, inbox.take().payload])

    def test_a_get_that_nobody_waits_for_gives_its_messages_back(self):
        link = self.up()
        pending = link.submit(requests.get("q", wait=9))
        self.out()
        link.abandon(pending)
        link.feed(b"OK 1\r\nMSG - 4 1 - q id=1 ts=1 1\r\na\r\n")
        self.assertEqual("NACK 4-4 requeue|", self.out())


class Channels(Case):
    def channel(self, link):
        number, pending = link.open_channel(None)
        self.assertEqual(f"@{number} OPEN|", self.out())
        link.feed(f"@{number} OK\r\n".encode())
        pending.result()
        return number

    def test_a_message_is_settled_on_the_channel_that_it_came_by(self):
        link = self.up()
        number = self.channel(link)
        pending = link.submit(requests.get("q"), number)
        self.assertEqual("@1 GET q|", self.out())
        link.feed(b"@1 OK 1\r\n@1 MSG - 1 1 - q id=1 ts=1 1\r\na\r\n")
        link.submit(requests.ack(*pending.result()))
        self.assertEqual("@1 ACK 1|", self.out())

    def test_one_that_is_closed_is_forgotten_with_its_subscriptions(self):
        link = self.up()
        number = self.channel(link)
        inbox, _ = link.subscribe(number, "q", None, {})
        link.feed(b"@1 OK\r\n")
        self.out()
        link.close_channel(number)
        self.assertTrue(inbox.is_ended)
        link.feed(b"@1 OK\r\n")
        with self.assertRaises(Error):
            link.submit(requests.ping(), number)
        self.out()
        link.lost(OSError("cut"))
        self.again(("", b""))
        self.assertEqual(number, self.channel(link))

    def test_one_that_is_refused_is_not_restored(self):
        link = self.up()
        _, pending = link.open_channel(None)
        link.feed(b"@1 ERR limit too many channels\r\n")
        with self.assertRaises(Refused):
            pending.result()
        self.out()
        link.lost(OSError("cut"))
        self.again(("", b""))

    def test_one_that_was_not_sent_is_opened_once(self):
        link = self.up()
        link.lost(OSError("cut"))
        link.open_channel(None)
        self.again(("@1 OPEN|", b"@1 OK\r\n"))
        link.lost(OSError("cut"))
        self.again(("@1 OPEN|", b"@1 OK\r\n"))


class Subscriptions(Case):
    def test_one_that_is_refused_leaves_its_name_free(self):
        link = self.up()
        for _ in range(2):
            _, pending = link.subscribe(0, "q", "mine", {})
            link.feed(b"ERR not-found there is no queue 'q'\r\n")
            with self.assertRaises(Refused):
                pending.result()
        link.subscribe(0, "q", "mine", {})
        with self.assertRaises(Refused) as caught:
            link.subscribe(0, "q", "mine", {})
        self.assertEqual("exists", caught.exception.code)

    def test_events_tell_what_it_has(self):
        events = []
        link = self.up(on_event=events.append)
        inbox, _ = link.subscribe(0, "q", "s", {"group": "g"})
        link.feed(b"OK\r\nEVT assigned s 0,3\r\nEVT active s\r\nEVT heartbeat\r\n")
        self.assertEqual(([0, 3], True), (inbox.assigned, inbox.is_active))
        link.lost(OSError("cut"))
        self.assertEqual(([], False), (inbox.assigned, inbox.is_active))
        self.again(("SUB q s group=g|", b"OK\r\n"))
        link.feed(b"EVT assigned s 1\r\nEVT assigned s -\r\nEVT active s\r\nEVT relieved s\r\n")
        link.feed(b"EVT updated s ack-timeout=5m\r\n")
        self.assertEqual(([], False), (inbox.assigned, inbox.is_active))
        self.assertEqual(["assigned", "active", "assigned", "assigned", "active", "relieved",
                          "updated"],
                         [event.name for event in events])

    def test_what_a_reader_refused_does_not_hold_it_back(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "t", "s", {"partition": 2})
        link.feed(b"OK\r\nMSG s 1 1 - t id=1 ts=1 partition=2 offset=4 1\r\na\r\n"
                  b"MSG s 2 1 - t id=1 ts=1 partition=2 offset=5 1\r\na\r\n")
        link.submit(requests.nack(inbox.take(), bury=True))
        link.feed(b"OK 1\r\n")
        self.out()
        link.lost(OSError("cut"))
        self.again(("STATS t|", b'DATA 16\r\n{"partitions":3}\r\n'),
                   ("SUB t s partition=2 from=5|", b"OK\r\n"))

    def test_a_change_is_told_to_who_waits(self):
        link = self.up()
        inbox, _ = link.subscribe(0, "q", "s", {})
        changes = []
        inbox.on_change = lambda: changes.append((inbox.first is not None, inbox.is_ended))
        link.feed(b"OK\r\nMSG s 1 1 - q id=1 ts=1 1\r\na\r\nEVT cancelled s queue-deleted\r\n")
        self.assertEqual([(True, False), (False, True)], changes)


class Transactions(Case):
    def begin(self):
        link = self.up()
        transaction, _ = link.begin(0)
        link.feed(b"OK\r\n")
        self.out()
        return link, transaction

    def test_its_publishes_have_no_id_of_the_client(self):
        link, transaction = self.begin()
        link.submit(requests.publish("q"), 0, transaction)
        self.assertEqual("PUB - q 0||", self.out())

    def test_nothing_else_gets_in(self):
        link, transaction = self.begin()
        with self.assertRaises(Error) as caught:
            link.submit(requests.publish("q"))
        self.assertEqual("transaction", caught.exception.code)
        with self.assertRaises(Error):
            link.begin(0)
        link.submit(requests.ping())
        self.assertEqual("PING|", self.out())

    def test_it_ends_with_its_connection(self):
        link, transaction = self.begin()
        pending = link.submit(requests.publish("q"), 0, transaction)
        link.lost(OSError("cut"))
        with self.assertRaises(ConnectionLost):
            pending.result()
        self.again()
        for request in (requests.publish("q"), requests.commit()):
            with self.assertRaises(ConnectionLost):
                link.submit(request, 0, transaction)
        link.end(transaction)
        link.submit(requests.publish("q", id="x"))
        self.assertEqual("PUB - q id=x 0||", self.out())

    def test_the_end_of_an_old_one_does_not_end_the_next(self):
        link, transaction = self.begin()
        link.end(transaction)
        link.begin(0)
        link.feed(b"OK\r\n")
        link.end(transaction)
        with self.assertRaises(Error):
            link.submit(requests.publish("q"))

    def test_one_whose_begin_nobody_waits_for_takes_no_publish_with_it(self):
        link = self.up()
        transaction, pending = link.begin(0)
        self.out()
        link.abandon(pending)
        link.end(transaction)
        with self.assertRaises(Error):
            link.submit(requests.publish("q"))
        link.feed(b"OK\r\n")
        link.submit(requests.publish("q", id="x"))
        self.assertEqual("ROLLBACK|PUB - q id=x 0||", self.out())

    def test_one_whose_begin_was_lost_leaves_the_channel_free(self):
        for is_sent in (True, False):
            link = self.up()
            if not is_sent:
                link.lost(OSError("cut"))
            transaction, pending = link.begin(0)
            link.abandon(pending)
            link.end(transaction)
            link.lost(OSError("cut"))
            self.again()
            link.begin(0)
            self.assertEqual("BEGIN|", self.out())

    def test_one_that_is_refused_leaves_the_channel_free(self):
        link = self.up()
        link.begin(0)
        link.feed(b"ERR shutdown the broker is stopping\r\n")
        link.begin(0)

    def test_one_that_was_not_begun_yet_begins_later(self):
        link = self.up()
        link.lost(OSError("cut"))
        transaction, pending = link.begin(0)
        link.lost(OSError("refused"))
        self.again(("BEGIN|", b"OK\r\n"))
        pending.result()
        link.submit(requests.publish("q"), 0, transaction)
        self.assertEqual("PUB - q 0||", self.out())


if __name__ == "__main__":
    unittest.main()
