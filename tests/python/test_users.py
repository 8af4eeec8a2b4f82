"""Users and passwords of a URL, on the real broker."""

import asyncio
import unittest

import tidemq
from broker import Broker
from tidemq import aio


class Users(unittest.TestCase):
    def setUp(self):
        self.said = []
        self.broker = Broker("--fsync", "no")
        self.addCleanup(self.broker.destroy)
        with tidemq.connect(self.broker.url) as client:
            client.request("USER add admin pass=a%20b tags=admin")
            client.request("USER add ann pass=secret")
            client.request("USER grant ann / configure=.* write=.* read=.*")

    def url(self, user, password):
        return self.broker.tcp.replace("tide://", f"tide://{user}:{password}@")

    def connect(self, user, password):
        client = tidemq.connect(self.url(user, password), backoff_max=0.1,
                                on_state=lambda *said: self.said.append(said))
        self.addCleanup(client.close)
        return client

    def denied(self, call, *args):
        with self.assertRaises(tidemq.Refused) as caught:
            call(*args)
        self.assertEqual("denied", caught.exception.code)
        self.assertNotIn("secret", f"{caught.exception!r} {caught.exception} {self.said}")

    def test_a_password_is_asked_for_and_sent(self):
        client = self.connect("ann", "secret")
        client.declare_queue("q")
        client.publish("q", "x")
        self.connect("admin", "a%20b").request("USER list")

    def test_a_wrong_password_is_the_end_at_once(self):
        self.denied(self.connect, "ann", "wrong")
        self.denied(self.connect, "nobody", "secret")
        self.assertEqual({"gave up"}, {state for state, _ in self.said})

    def test_who_does_not_log_in_may_do_nothing(self):
        self.denied(tidemq.connect, self.broker.url)

    def test_a_user_that_is_deleted_is_not_let_in_again(self):
        client = self.connect("ann", "secret")
        client.declare_queue("q")
        subscription = client.subscribe("q")
        self.connect("admin", "a%20b").request("USER delete ann")
        self.denied(subscription.next, 30)
        self.assertEqual("gave up", self.said[-1][0])

    def test_asyncio(self):
        async def run():
            async with aio.connect(self.url("ann", "secret")) as client:
                await client.declare_queue("q")
            await aio.connect(self.url("ann", "wrong"))
        self.denied(asyncio.run, run())


if __name__ == "__main__":
    unittest.main()
