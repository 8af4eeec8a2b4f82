"""The blocking client on the real broker."""

import contextlib
import os
import random
import threading
import unittest

import tidemq
from broker import PATIENCE, Broker, Proxy, wait_for

ANY = bytes(range(256)) + b"\r\nOK\r\n\r\nDATA 5\r\n"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Broker("--fsync", "no")

    @classmethod
    def tearDownClass(cls):
        cls.broker.destroy()

    def setUp(self):
        self.said = []

    def connect(self, url=None, **options):
        options.setdefault("on_state", lambda *said: self.said.append(said))
        client = tidemq.connect(url or self.broker.url, **options)
        self.addCleanup(client.close)
        return client

    def queue(self, client, **options):
        name = client.declare_queue(f"q.{random.getrandbits(64):x}", **options)
        self.addCleanup(self.broker_client().delete_queue, name)
        return name

    def broker_client(self):
        return self.connect(on_state=None)

    def ready(self, name):
        return self.broker_client().request(f"STATS {name}").document["ready"]

    def refused(self, code, call, *args, **options):
        with self.assertRaises(tidemq.Error) as caught:
            call(*args, **options)
        self.assertEqual(code, caught.exception.code)
        return caught.exception


class Publishing(Case):
    def test_the_broker_tells_what_it_is(self):
        with self.connect(self.broker.tcp) as client:
            self.assertEqual("tidemq", client.facts["server"])
        self.refused("closed", client.ping)
        client.close()

    def test_what_goes_in_comes_out(self):
        client = self.connect()
        queue = self.queue(client)
        receipt = client.publish(queue, ANY, headers={"a": "50% off\n", "b": ANY}, priority=7)
        self.assertEqual((1, 0, False), (receipt.queues, receipt.topics, receipt.duplicate))
        [message] = client.get(queue)
        self.assertEqual((ANY, "50% off\n", receipt.id, 7, 1, "", queue), (
            message.payload, message.headers["a"], message.id, message.priority, message.attempt,
            message.exchange, message.key))
        self.assertEqual(ANY, message.headers["b"].encode("utf-8", "surrogateescape"))
        self.assertEqual(1, client.ack(message))
        self.assertEqual([], client.get(queue))

    def test_payloads_of_every_size_in_pieces(self):
        proxy = Proxy(self.broker)
        self.addCleanup(proxy.close)
        client = self.connect(proxy.url)
        queue = self.queue(client)
        for size, chunk in ((0, 1), (1, 1), (300, 1), (70_000, 13), (16 << 20, 1 << 16)):
            proxy.chunk = chunk
            payload = random.Random(size).randbytes(size)
            client.publish(queue, payload)
            [message] = client.get(queue, wait=5)
            self.assertEqual(payload, message.payload)
            client.ack(message)

    def test_payloads_are_text_or_bytes(self):
        client = self.connect()
        queue = self.queue(client)
        payloads = ["é", b"b", bytearray(b"ba"), memoryview(b"mv")]
        for payload in payloads:
            client.publish(queue, payload)
        client.request(f"PUB - {queue}", "line")
        transaction = client.channel().transaction()
        for publish in client.publish, client.pipeline().publish, transaction.publish:
            for wrong, name in (42, "int"), ({"a": 1}, "dict"), (None, "NoneType"), ([1], "list"):
                with self.assertRaisesRegex(TypeError, rf"not {name}: .*json\.dumps"):
                    publish(queue, wrong)
        with self.assertRaisesRegex(TypeError, "not int"):
            client.publish(queue, b"", headers={"n": 42})
        with self.assertRaisesRegex(TypeError, "not int"):
            client.request(f"PUB - {queue}", 42)
        transaction.commit()
        self.assertEqual(["é".encode(), b"b", b"ba", b"mv", b"line"],
                         [message.payload for message in client.get(queue, max=10)])

    def test_a_name_that_the_broker_chooses(self):
        client = self.connect()
        for name in "", "-":
            chosen = client.declare_queue(name, exclusive=True)
            self.assertNotIn(chosen, ("", "-"))
            self.assertEqual(1, client.publish(chosen, b"x").queues)

    def test_a_refusal_has_the_code_of_the_broker(self):
        client = self.connect()
        self.assertIn("nowhere", self.refused("not-found", client.get, "nowhere").text)
        self.refused("unroutable", client.publish, "nowhere", must=True)
        self.refused("mismatch", client.declare_queue, self.queue(client), retry="none")
        self.refused("too-large", client.publish, "q", bytes((16 << 20) + 1))
        self.assertEqual(0, client.publish("nowhere").queues)
        self.assertIsInstance(self.refused("not-found", client.get, "nowhere"), tidemq.Refused)

    def test_a_pipeline_confirms_everything(self):
        client = self.connect()
        queue = self.queue(client)
        with client.pipeline(window=50) as pipe:
            sent = [pipe.publish(queue, str(n)) for n in range(1000)]
        self.assertEqual(1000, len({each.result().id for each in sent}))
        self.assertEqual(1000, self.ready(queue))
        messages = client.get(queue, max=1000)
        self.assertEqual([str(n).encode() for n in range(1000)], [m.payload for m in messages])
        self.assertEqual(1000, client.ack(*messages))

    def test_a_pipeline_tells_the_first_refusal_and_goes_on(self):
        client = self.connect()
        queue = self.queue(client)
        pipe = client.pipeline()
        sent = [pipe.publish(name, must=True) for name in ("nowhere", queue, "nowhere.2")]
        self.assertIn("'nowhere'", self.refused("unroutable", pipe.flush).text)
        self.assertEqual(1, sent[1].result().queues)
        pipe.flush()

    def test_two_large_directions_at_once(self):
        # A client that sent all before it read would wait for ever.
        client = self.connect(self.broker.tcp)
        queue = self.queue(client)
        subscription = client.subscribe(queue, ack="auto", prefetch=10)
        with client.pipeline() as pipe:
            for _ in range(100):
                pipe.publish(queue, bytes(1 << 20))
        self.assertEqual(100, sum(1 for _ in zip(range(100), subscription)))

    def test_an_id_is_stored_once(self):
        client = self.connect()
        queue = self.queue(client)
        first = client.publish(queue, "a", id="order 42")
        again = client.publish(queue, "a", id="order 42")
        self.assertEqual((first.id, True), (again.id, again.duplicate))

    def test_exchanges_and_bindings(self):
        client = self.connect()
        queue = self.queue(client)
        client.declare_exchange("x", "topic", internal=False)
        client.declare_exchange("y", "headers")
        client.bind(queue, "x", "a.#")
        client.bind("y", "x", "b.#", to="exchange")
        client.bind(queue, "y", options={"h:region": "e u", "h?express": True})
        self.assertEqual(1, client.publish("a.b", exchange="x").queues)
        self.assertEqual(0, client.publish("b.b", exchange="x").queues)
        headers = {"region": "e u", "express": ""}
        self.assertEqual(1, client.publish("b.b", exchange="x", headers=headers).queues)
        client.unbind(queue, "x", "a.#")
        self.assertEqual(0, client.publish("a.b", exchange="x").queues)
        for name in ("x", "y"):
            client.delete_exchange(name)

    def test_a_broker_that_cannot_be_reached(self):
        for url in ("tide+unix:/nowhere/at/all", "tide://127.0.0.1:1/"):
            with self.assertRaises(tidemq.ConnectionLost):
                tidemq.connect(url)

    def test_the_second_of_two_urls(self):
        self.broker_client().request("DECLARE vhost second")
        client = self.connect(f"tide+unix:/nowhere,{self.broker.url}?vhost=second")
        self.assertEqual("second", client.facts["vhost"])
        self.assertEqual(["retrying", "connected"], [state for state, _ in self.said])

    def test_the_url_of_the_environment(self):
        self.broker_client().request("DECLARE vhost env")
        os.environ["TIDEMQ_URL"] = f"{self.broker.url}?vhost=env"
        self.addCleanup(os.environ.pop, "TIDEMQ_URL")
        with tidemq.connect() as client:
            self.assertEqual("env", client.facts["vhost"])


class Consuming(Case):
    def test_a_subscription_is_an_iterator(self):
        client = self.connect()
        queue = self.queue(client)
        for n in range(20):
            client.publish(queue, str(n))
        seen = []
        with client.subscribe(queue, prefetch=3) as subscription:
            for message in subscription:
                seen.append(int(message.payload))
                client.ack(message)
                if len(seen) == 10:
                    break
        self.assertEqual(list(range(10)), seen)
        # What nobody took is back at once.
        self.assertEqual(10, self.ready(queue))
        self.assertEqual([], list(subscription))

    def test_next_waits_so_long_and_no_longer(self):
        client = self.connect()
        queue = self.queue(client)
        subscription = client.subscribe(queue)
        self.refused("timeout", subscription.next, timeout=0)
        self.refused("timeout", subscription.next, timeout=0.01)
        self.broker_client().publish(queue, "x")
        self.assertEqual(b"x", subscription.next(timeout=PATIENCE).payload)

    def test_a_message_in_memory_alone(self):
        client = self.connect()
        queue = self.queue(client)
        client.publish(queue, "x", durable=False)
        client.publish(queue, "y", durable=True)
        shards = {m["payload"]: m["shard"]
                  for m in client.request(f"PEEK {queue} 2").document["messages"]}
        self.assertEqual({"x": 64, "y": 0}, shards)

    def test_nack_touch_and_attempts(self):
        client = self.connect()
        queue = self.queue(client, ack_timeout=30)
        client.publish(queue, "x")
        [message] = client.get(queue)
        self.assertEqual(1, client.touch(message, for_=60))
        self.assertEqual(1, client.nack(message, delay=0.001))
        [message] = client.get(queue, wait=5)
        self.assertEqual((2, True), (message.attempt, message.redelivered))
        client.nack(message, bury=True, reason="€ " * 1000)
        self.assertEqual(["1"], client.request(f"KICK {queue}").words)
        [message] = client.get(queue)
        self.assertEqual(("€ " * 64), message.headers["x-death-reason-text"])
        client.ack(message)
        self.refused("lease-lost", client.ack, message)

    def attempts(self, name):
        """The attempts of the messages that are ready, once nobody holds one."""
        client = self.broker_client()
        wait_for(lambda: client.request(f"STATS {name}").document["unacked"] == 0, "the end")
        return [message.attempt for message in client.get(name, max=10)]

    def test_to_leave_in_order_is_no_failure(self):
        queue = self.queue(self.broker_client())
        for _ in range(3):
            self.broker_client().publish(queue, "x")
        for leave in (None, KeyboardInterrupt, SystemExit):
            with self.assertRaises(leave) if leave else contextlib.nullcontext():
                with self.connect() as client:
                    client.subscribe(queue).next(timeout=PATIENCE)
                    if leave:
                        raise leave
        self.assertEqual([1, 1, 1], self.attempts(queue))

    def test_an_exception_that_ends_the_program_is_a_failure_of_the_message_in_work(self):
        queue = self.queue(self.broker_client())
        for _ in range(3):
            self.broker_client().publish(queue, "x")
        with self.assertRaises(ZeroDivisionError), self.connect() as client:
            client.subscribe(queue).next(timeout=PATIENCE)
            raise ZeroDivisionError
        self.assertEqual([1, 1, 2], sorted(self.attempts(queue)))

    def test_a_consumer_that_hung_does_each_message_once(self):
        client = self.connect()
        queue = self.queue(client, ack_timeout=0.05)
        subscription = client.subscribe(queue)
        other = self.broker_client()
        for n in range(5):
            other.publish(queue, str(n))
        first = subscription.next(timeout=PATIENCE)
        wait_for(lambda: other.request(f"STATS {queue}").document["timed_out"] > 0, "a timeout")
        seen = [int(first.payload)]
        client.ack(first)
        other.request(f"DECLARE queue {queue} ack-timeout=1h update")
        while len(seen) < 5:
            message = subscription.next(timeout=PATIENCE)
            seen.append(int(message.payload))
            client.ack(message)
        self.assertEqual(list(range(5)), seen)
        self.refused("timeout", subscription.next, timeout=0)
        self.assertEqual(0, self.ready(queue))

    def test_several_subscriptions_at_once(self):
        client = self.connect()
        queues = [self.queue(client) for _ in range(3)]
        for name in queues:
            client.subscribe(name, sid=name)
        other = self.broker_client()
        for name in [*queues, *queues]:
            other.publish(name, name)
        seen = [(m.sid, m.payload.decode())
                for _, m in zip(range(6), client.messages(timeout=PATIENCE))]
        self.assertEqual([(name, name) for name in [*queues, *queues]], seen)

    def test_a_queue_that_is_deleted_ends_its_subscription(self):
        client = self.connect()
        name = client.declare_queue()
        subscription = client.subscribe(name)
        client.delete_queue(name)
        self.refused("cancelled", subscription.next, timeout=PATIENCE)
        self.refused("not-found", client.subscribe, name)

    def test_a_channel_does_not_hold_up_another(self):
        client = self.connect()
        queue = self.queue(client)
        with client.channel(prefetch=1) as channel:
            pipe = channel.pipeline()
            waiting = pipe.request(f"GET {queue} wait=30s")
            client.publish(queue, "x")
            pipe.flush()
            [message] = waiting.result().messages
            self.assertEqual(channel.ack(message), 1)
            channel.subscribe(queue, prefetch=10)
            for _ in range(3):
                client.publish(queue, "y")
            self.assertEqual(b"y", next(channel.messages(timeout=PATIENCE)).payload)
            self.assertEqual([], list(channel.messages(timeout=0.05)))
        self.refused("closed", channel.ping)
        client.ping()

    def test_a_reply_that_does_not_come_in_time(self):
        client = self.connect()
        queue = self.queue(client)
        client._link.options = tidemq.Options(timeout=0.05)
        pipe = client.pipeline()
        late = pipe.request(f"GET {queue} wait=500ms")
        self.refused("timeout", pipe.flush)
        self.assertFalse(late.is_done)
        client._link.options = tidemq.Options()
        # The late reply is not taken for the next one.
        self.assertEqual(["0"], client.request(f"GET {queue}").words)

    def test_a_get_has_the_time_that_it_waits_on_top(self):
        client = self.connect(timeout=1)
        self.assertEqual([], client.get(self.queue(client), wait=1.5))

    def test_events(self):
        events = []
        client = self.connect(on_event=events.append)
        queue = self.queue(client, single_active=True)
        subscription = client.subscribe(queue, sid="s")
        self.refused("timeout", subscription.next, timeout=0)
        self.assertTrue(subscription.is_active)
        self.assertEqual(["active s"], [f"{event.name} {event.text}" for event in events])

    def test_heartbeats_keep_a_waiting_client_alive(self):
        client = self.connect(heartbeat=1)
        subscription = client.subscribe(self.queue(client))
        self.refused("timeout", subscription.next, timeout=3)
        self.assertEqual(["connected"], [state for state, _ in self.said])

    def test_work_that_is_longer_than_the_heartbeats_is_told_as_such(self):
        client = self.connect(heartbeat=1, name="busy")
        other = self.broker_client()
        wait_for(lambda: "busy" not in [each["name"] for each in
                                        other.request("LIST connections").document],
                 "the end of a client that does not beat")
        client.ping()
        state, text = self.said[1]
        self.assertEqual("lost", state)
        self.assertIn("heartbeat", text)


class Topics(Case):
    def topic(self, client, **options):
        client.declare_topic("t", **options)
        self.addCleanup(self.broker_client().delete_topic, "t")

    def test_places_groups_and_readers(self):
        client = self.connect()
        self.topic(client, partitions=1)
        places = [(r.partition, r.offset) for r in (client.publish("t", str(n)) for n in range(5))]
        self.assertEqual([(0, n) for n in range(5)], places)
        self.refused("mismatch", client.publish, "t", "x", expect=3)
        with client.subscribe("t", group="g") as subscription:
            message = subscription.next(5)
            self.assertEqual((b"0", 0, 0), (message.payload, message.partition, message.offset))
            self.assertEqual([0], subscription.assigned)
            client.ack(message)
        self.assertEqual([b"1"], [m.payload for m in client.get("t", group="g", ack="auto")])
        found = client.get("t", partition=0, offset=3, max=9)
        self.assertEqual([b"3", b"4"], [m.payload for m in found])
        with client.subscribe("t", from_="first", ack="auto") as reader:
            self.assertEqual(b"0", reader.next(5).payload)
        client.seek("t", "g", 4)
        self.assertEqual([b"4"], [m.payload for m in client.get("t", group="g", ack="auto")])
        client.delete_group("t", "g")
        self.refused("not-found", client.seek, "t", "g", "first")


class Transactions(Case):
    def test_all_or_nothing(self):
        client = self.connect()
        orders, invoices = self.queue(client), self.queue(client)
        client.publish(orders, "a")
        [message] = client.get(orders)
        with self.assertRaises(ZeroDivisionError):
            with client.transaction() as t:
                self.assertTrue(t.publish(invoices, "b").queued)
                t.ack(message)
                raise ZeroDivisionError
        self.assertEqual(0, self.ready(invoices))
        with client.transaction() as t:
            t.publish(invoices, "b", id="mine")
            t.ack(message)
        self.assertEqual((1, 1), (t.published, t.settled))
        self.assertEqual([b"b"], [m.payload for m in client.get(invoices)])
        self.refused("lease-lost", client.ack, message)
        self.refused("transaction", t.publish, invoices)

    def test_one_that_is_refused_tells_why(self):
        client = self.connect()
        with self.assertRaises(tidemq.Refused) as caught:
            with client.transaction() as t:
                t.publish("nowhere", must=True)
        self.assertEqual("unroutable", caught.exception.code)
        self.assertIn("nothing was applied", caught.exception.text)
        client.ping()
        with client.transaction():
            pass


class Losing(Case):
    """The connection breaks; the broker lives."""

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.broker)
        self.addCleanup(self.proxy.close)

    def test_a_confirm_that_was_lost_is_asked_for_again(self):
        client = self.connect(self.proxy.url)
        queue = self.queue(client)
        self.proxy.is_mute = True
        pipe = client.pipeline()
        sent = [pipe.publish(queue, str(n)) for n in range(3)]
        wait_for(lambda: self.proxy.held.count(b"OK ") == 3, "three confirms")
        self.proxy.cut()
        pipe.flush()
        self.assertEqual([True] * 3, [each.result().duplicate for each in sent])
        self.assertEqual(3, self.ready(queue))
        self.assertEqual(["connected", "lost", "restored"], [state for state, _ in self.said])

    def test_without_reconnect_a_loss_is_an_exception(self):
        client = self.connect(self.proxy.url, reconnect=False)
        queue = self.queue(client)
        subscription = client.subscribe(queue)
        self.proxy.cut()
        self.refused("connection", client.publish, queue)
        self.refused("connection", client.ping)
        self.refused("connection", subscription.next)
        self.assertEqual(["connected", "gave up"], [state for state, _ in self.said])

    def test_it_gives_up(self):
        client = self.connect(self.proxy.url, give_up_after=0.2, backoff_max=0.05)
        self.proxy.close()
        self.refused("connection", client.ping)
        self.assertEqual("gave up", self.said[-1][0])

    def test_what_is_the_connections_own_comes_back_empty(self):
        client = self.connect(self.proxy.url, name="its-own")
        name = client.declare_queue(exclusive=True)
        client.declare_exchange("lost.x", "fanout", durable=False)
        client.bind(name, "lost.x")
        subscription = client.subscribe(name)
        number = self.number(client)
        # The broker itself ends the connection, and so has dropped the queue before the next one.
        self.broker_client().request(f"KILL connection {number}")
        client.ping()
        self.assertEqual(1, client.publish("", "x", exchange="lost.x").queues)
        self.assertEqual(b"x", subscription.next(5).payload)
        client.delete_exchange("lost.x")

    def number(self, client):
        return [row["connection"] for row in client.request("LIST connections").document
                if row["name"] == client._link.options.name][-1]

    def test_a_message_of_the_old_connection(self):
        client = self.connect(self.proxy.url)
        queue = self.queue(client)
        client.publish(queue, "x")
        subscription = client.subscribe(queue)
        message = subscription.next(5)
        self.proxy.cut()
        again = subscription.next(10)
        self.assertEqual((message.id, True), (again.id, again.redelivered))
        self.refused("lease-lost", client.ack, message)
        self.assertEqual(1, client.ack(again))

    def test_a_transaction_of_the_old_connection(self):
        client = self.connect(self.proxy.url)
        queue = self.queue(client)
        with self.assertRaises(tidemq.ConnectionLost):
            with client.transaction() as t:
                t.publish(queue, "x")
                self.proxy.cut()
                client.ping()
        self.assertEqual(0, self.ready(queue))
        client.publish(queue, "y")
        self.assertEqual(1, self.ready(queue))

    def test_a_waiting_get_goes_on_waiting(self):
        client = self.connect(self.proxy.url, name="getter")
        queue = self.queue(client)

        def later():
            with tidemq.connect(self.broker.url) as other:
                wait_for(lambda: self.waiting(other), "the GET")
                self.proxy.cut()
                wait_for(lambda: self.proxy.connections == 2 and self.waiting(other), "the next")
                other.publish(queue, "x")
        thread = threading.Thread(target=later)
        thread.start()
        self.assertEqual([b"x"], [m.payload for m in client.get(queue, wait=30)])
        thread.join()

    def waiting(self, other):
        return any(row["name"] == "getter" and row["pending"] > 0
                   for row in other.request("LIST connections").document)


class Restarting(unittest.TestCase):
    """kill -9 and a restart of the broker, on a Redis that lives on."""

    def setUp(self):
        self.broker = Broker("--fsync", "no")
        self.addCleanup(self.broker.destroy)

    def connect(self, **options):
        client = tidemq.connect(self.broker.url, backoff_max=0.2, **options)
        self.addCleanup(client.close)
        return client

    def restarts(self, times, is_enough):
        """A thread that restarts the broker whenever there was progress."""
        def run():
            for n in range(times):
                wait_for(lambda: is_enough(n), f"progress before restart {n}")
                self.broker.restart()
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def test_publishes_are_there_once_each(self):
        client = self.connect()
        client.declare_queue("q")
        confirmed = []
        thread = self.restarts(3, lambda n: len(confirmed) > 300 * (n + 1))
        count = 0
        with client.pipeline(window=100) as pipe:
            while thread.is_alive() or count < 2000:
                pending = pipe.publish("q", str(count))
                pending.then = confirmed.append
                if pending.is_done:  # within publish, which read it
                    confirmed.append(pending)
                count += 1
                if count > 200_000:
                    break
        thread.join()
        self.assertEqual(count, len(confirmed))
        self.assertEqual(list(range(count)), self.take_all(client, "q"))

    def test_a_worker_loses_nothing(self):
        client = self.connect(prefetch=10)
        client.declare_queue("in")
        client.declare_queue("out")
        with client.pipeline() as pipe:
            for n in range(1500):
                pipe.publish("in", str(n))
        done = set()
        thread = self.restarts(3, lambda n: len(done) > 200 * (n + 1))
        subscription = client.subscribe("in")
        while thread.is_alive() or self.left(client, "in"):
            try:
                message = subscription.next(timeout=0.2)
                # Nothing is doubled in `out`: its id is that of the work.
                client.publish("out", message.payload, id=b"done " + message.payload)
                done.add(int(message.payload))
                client.ack(message)
            except (tidemq.Timeout, tidemq.LeaseLost):
                pass
        self.assertEqual(list(range(1500)), self.take_all(client, "out"))

    def left(self, client, queue):
        stats = client.request(f"STATS {queue}").document
        return sum(stats[state] for state in ("ready", "delayed", "unacked", "buried"))

    def take_all(self, client, queue):
        seen = []
        while messages := client.get(queue, max=1000, ack="auto"):
            seen += [int(message.payload) for message in messages]
        return sorted(seen)

    def read(self, reader, client, found, count):
        """Take so many messages, and note those that are certainly done with."""
        while count > 0:
            message = reader.next(10)
            try:
                if message.tag is not None:
                    client.ack(message)
            except tidemq.LeaseLost:
                continue
            found.setdefault(message.partition, []).append(int(message.payload))
            count -= 1

    def test_readers_and_a_group_read_everything_in_order(self):
        client, other = self.connect(), self.connect()
        client.declare_topic("t", partitions=3)
        group = client.subscribe("t", group="g")
        # Without acks what a reader was given counts as read.
        readers = [client.subscribe("t", ack="auto"), client.subscribe("t", from_="first")]
        expected, got = {}, [{}, {}]
        for n in range(300):
            receipt = other.publish("t", str(n))
            self.assertEqual(1, receipt.topics)
            expected.setdefault(receipt.partition, []).append(n)
            if n in (100, 200):
                self.broker.restart()
            if n % 10 == 5 and n < 250:
                for reader, found in zip(readers, got):
                    self.read(reader, client, found, 3)
        for reader, found in zip(readers, got):
            self.read(reader, client, found, 300 - sum(map(len, found.values())))
        self.assertEqual([expected, expected], got)
        seen = set()
        while len(seen) < 300:
            message = group.next(10)
            seen.add(int(message.payload))
            client.ack(message)

    def test_a_queue_in_memory_is_declared_again(self):
        client = self.connect()
        client.declare_queue("memory", durable=False)
        client.declare_exchange("x", "fanout", durable=False)
        client.bind("memory", "x")
        subscription = client.subscribe("memory")
        self.broker.restart()
        self.assertEqual(1, client.publish("", "x", exchange="x").queues)
        self.assertEqual(b"x", subscription.next(10).payload)


if __name__ == "__main__":
    unittest.main()
