"""The asyncio client on the real broker: what differs from the blocking one."""

import asyncio
import contextlib
import logging
import random
import unittest

import tidemq
from broker import PATIENCE, Broker, Proxy, wait_for
from tidemq import aio


class Case(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Broker("--fsync", "no")

    def setUp(self):
        logging.getLogger("asyncio").setLevel(logging.ERROR)  # what was slow is not asked

    @classmethod
    def tearDownClass(cls):
        cls.broker.destroy()

    async def connect(self, url=None, **options):
        client = await aio.connect(url or self.broker.url, **options)
        self.addAsyncCleanup(client.close)
        return client

    async def queue(self, client, **options):
        name = await client.declare_queue(f"q.{random.getrandbits(64):x}", **options)

        async def delete():
            async with aio.connect(self.broker.url) as other:
                await other.delete_queue(name)
        self.addAsyncCleanup(delete)
        return name

    async def stats(self, name):
        async with aio.connect(self.broker.url) as client:
            return (await client.request(f"STATS {name}")).document

    async def refused(self, code, awaitable):
        with self.assertRaises(tidemq.Error) as caught:
            await awaitable
        self.assertEqual(code, caught.exception.code)


class Asking(Case):
    async def test_payloads_are_text_or_bytes(self):
        client = await self.connect()
        queue = await self.queue(client)
        for publish in client.publish, client.pipeline().publish:
            with self.assertRaisesRegex(TypeError, r"not int: .*json\.dumps"):
                await publish(queue, 42)
        self.assertEqual([], await client.get(queue))

    async def test_many_tasks_share_a_client(self):
        client = await self.connect(self.broker.tcp)
        queue = await self.queue(client)
        receipts = await asyncio.gather(*(client.publish(queue, str(n)) for n in range(500)))
        self.assertEqual(500, len({receipt.id for receipt in receipts}))
        seen = []

        async def work(subscription):
            async for message in subscription:
                await client.ack(message)
                seen.append(int(message.payload))
                if len(seen) == 500:
                    await subscription.cancel()
        await work(await client.subscribe(queue, prefetch=7))
        self.assertEqual(list(range(500)), seen)

    async def test_large_payloads_both_ways(self):
        client = await self.connect(self.broker.tcp)
        queue = await self.queue(client)
        subscription = await client.subscribe(queue, ack="auto")
        payload = random.Random(1).randbytes(4 << 20)
        async with client.pipeline() as pipe:
            for _ in range(20):
                await pipe.publish(queue, payload)
        for _ in range(20):
            self.assertEqual(payload, (await subscription.next(10)).payload)

    async def test_refusals_and_timeouts(self):
        client = await self.connect()
        queue = await self.queue(client)
        await self.refused("not-found", client.get("nowhere"))
        await self.refused("not-found", client.subscribe("nowhere"))
        subscription = await client.subscribe(queue)
        client._link.options = tidemq.Options(timeout=1)
        self.assertEqual([], await client.get(queue, wait=1.5))
        client._link.options = tidemq.Options(timeout=0.05)
        await self.refused("timeout", client.request(f"GET {queue} wait=300ms"))
        await self.refused("timeout", subscription.next(timeout=0.01))
        await client.close()
        await self.refused("closed", client.ping())
        await self.refused("closed", subscription.next())

    async def test_a_pipeline_tells_the_first_refusal(self):
        client = await self.connect()
        pipe = client.pipeline(window=2)
        sent = [await pipe.publish(f"nowhere.{n}", must=True) for n in range(5)]
        with self.assertRaises(tidemq.Refused) as caught:
            await pipe.flush()
        self.assertIn("'nowhere.0'", caught.exception.text)
        self.assertTrue(all(each.error for each in sent))

    async def test_a_task_that_is_cancelled_leaves_nothing_behind(self):
        client = await self.connect()
        queue = await self.queue(client)
        task = asyncio.create_task(client.get(queue, wait=30))
        while (await self.pending()) == 0:
            await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        async with aio.connect(self.broker.url) as other:
            await other.publish(queue, "x")
        await client.ping()
        [message] = await client.get(queue)
        # It was handed out and given back: a return, no failure.
        self.assertEqual((b"x", 1, True), (message.payload, message.attempt, message.redelivered))

    async def pending(self):
        async with aio.connect(self.broker.url) as other:
            rows = (await other.request("LIST connections")).document
            return sum(row["pending"] for row in rows[:-1])

    async def test_transactions_of_tasks_have_a_channel_each(self):
        client = await self.connect()
        queue = await self.queue(client)

        async def transfer(n):
            async with await client.channel() as channel:
                async with channel.transaction() as t:
                    await t.publish(queue, str(n))
                    await asyncio.sleep(0)
                    if n % 2:
                        raise ZeroDivisionError
                return t.published
        found = await asyncio.gather(*(transfer(n) for n in range(10)), return_exceptions=True)
        self.assertEqual([1] * 5, found[::2])
        self.assertEqual(5, (await self.stats(queue))["ready"])

    async def test_an_exception_is_a_failure_of_the_message_in_work_and_a_close_is_none(self):
        queue = await self.queue(await self.connect())
        for error, attempt in ((asyncio.CancelledError, 1), (ZeroDivisionError, 1), (None, 2)):
            with self.assertRaises(error) if error else contextlib.nullcontext():
                async with aio.connect(self.broker.url) as client:
                    if error is not None:
                        await client.publish(queue, "x", id="once")
                    message = await (await client.subscribe(queue)).next(timeout=PATIENCE)
                    self.assertEqual(attempt, message.attempt)
                    if error is not None:
                        raise error

    async def test_several_subscriptions_at_once(self):
        client = await self.connect()
        queues = [await self.queue(client) for _ in range(2)]
        for name in queues:
            await client.subscribe(name, ack="auto")
        for name in queues * 2:
            await client.publish(name, name)
        seen = []
        async for message in client.messages(timeout=PATIENCE):
            seen.append(message.key)
            if len(seen) == 4:
                break
        self.assertEqual(queues * 2, seen)

    async def test_a_queue_that_is_deleted_ends_its_subscription(self):
        client = await self.connect()
        name = await client.declare_queue()
        subscription = await client.subscribe(name)
        await client.delete_queue(name)
        await self.refused("cancelled", subscription.next(5))

    async def test_a_broker_that_cannot_be_reached(self):
        await self.refused("connection", aio.connect("tide+unix:/nowhere")._open())

    async def test_heartbeats_go_on_while_the_program_does_something_else(self):
        client = await self.connect(heartbeat=1, reconnect=False)
        await asyncio.sleep(2.5)
        await client.ping()

    async def test_a_loop_that_stood_still_longer_than_the_heartbeats_is_told_as_such(self):
        said = []
        await self.connect(heartbeat=1, name="busy", on_state=lambda *each: said.append(each))
        with tidemq.connect(self.broker.url) as other:
            wait_for(lambda: "busy" not in [each["name"] for each in
                                            other.request("LIST connections").document],
                     "the end of a client that does not beat")
        async with asyncio.timeout(PATIENCE):
            while len(said) < 2:
                await asyncio.sleep(0.005)
        self.assertEqual("lost", said[1][0])
        self.assertIn("heartbeat", said[1][1])


class Losing(Case):
    async def test_a_confirm_that_was_lost_is_asked_for_again(self):
        proxy = Proxy(self.broker)
        self.addCleanup(proxy.close)
        said = []
        client = await self.connect(proxy.url, on_state=lambda *state: said.append(state[0]))
        queue = await self.queue(client)
        proxy.is_mute = True
        task = asyncio.gather(*(client.publish(queue, str(n)) for n in range(3)))
        await asyncio.to_thread(wait_for, lambda: proxy.held.count(b"OK ") == 3, "three confirms")
        proxy.cut()
        self.assertEqual([True] * 3, [receipt.duplicate for receipt in await task])
        self.assertEqual(3, (await self.stats(queue))["ready"])
        self.assertEqual(["connected", "lost", "restored"], said)

    async def test_it_gives_up(self):
        proxy = Proxy(self.broker)
        client = await self.connect(proxy.url, give_up_after=0.1, backoff_max=0.05)
        name = await client.declare_queue()
        subscription = await client.subscribe(name)
        proxy.close()
        await self.refused("connection", subscription.next())
        await self.refused("connection", client.ping())

    async def test_a_callback_that_raises_leaves_nobody_waiting(self):
        def on_event(_):
            raise ZeroDivisionError
        client = await self.connect(on_event=on_event)
        name = await client.declare_queue(single_active=True)
        with self.assertRaises(tidemq.ConnectionLost):
            await client.subscribe(name)
            await client.ping()


class Restarting(unittest.IsolatedAsyncioTestCase):
    async def test_publishers_and_workers_survive_kills(self):
        broker = Broker("--fsync", "no")
        self.addCleanup(broker.destroy)
        client = await aio.connect(broker.url, backoff_max=0.2)
        self.addAsyncCleanup(client.close)
        await client.declare_queue("q")
        done, confirmed = set(), []

        async def publish():
            for n in range(1200):
                confirmed.append(await client.publish("q", str(n)))

        async def work():
            subscription = await client.subscribe("q", prefetch=20)
            while len(done) < 1200:
                try:
                    message = await subscription.next(timeout=PATIENCE)
                    done.add(int(message.payload))
                    await client.ack(message)
                except tidemq.LeaseLost:
                    pass

        async def restart():
            for share in (200, 500, 800):
                while len(confirmed) < share:
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(broker.restart)
        async with asyncio.timeout(120):
            await asyncio.gather(publish(), work(), restart())
        self.assertEqual(1200, len({receipt.id for receipt in confirmed}))
        stats = (await client.request("STATS q")).document
        self.assertEqual((0, 0), (stats["ready"], stats["buried"]))


if __name__ == "__main__":
    unittest.main()
