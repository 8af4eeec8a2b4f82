"""tides://: certificates and names are verified, and bytes pass in both directions."""

import random
import ssl
import subprocess
import tempfile
import unittest

import tidemq
from broker import Broker, Proxy
from tidemq import aio


def openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


def certificates():
    """A directory with ca.pem, another.pem, and certificates of localhost and of a client."""
    found = tempfile.TemporaryDirectory(prefix="tidemq-python-tls.")
    for name in ("ca", "another"):
        openssl(found.name, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign",
                "-keyout", f"{name}.key", "-out", f"{name}.pem")
    for name, host in (("server", "localhost"), ("client", "c")):
        openssl(found.name, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                "-addext", f"subjectAltName=DNS:{host}", "-keyout", f"{name}.key",
                "-out", f"{name}.csr")
        openssl(found.name, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey",
                "ca.key", "-CAcreateserial", "-days", "2", "-copy_extensions", "copy",
                "-out", f"{name}.pem")
    return found


class Case(unittest.TestCase):
    """Through a proxy that speaks TLS."""

    @classmethod
    def setUpClass(cls):
        cls.certificates = certificates()
        cls.dir = cls.certificates.name
        cls.broker = Broker("--fsync", "no", *cls.arguments())

    @classmethod
    def arguments(cls):
        return []

    @classmethod
    def tearDownClass(cls):
        cls.broker.destroy()
        cls.certificates.cleanup()

    def setUp(self):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=f"{self.dir}/ca.pem")
        context.load_cert_chain(f"{self.dir}/server.pem", f"{self.dir}/server.key")
        self.context = context
        self.proxy = Proxy(self.broker, context)
        self.addCleanup(self.proxy.close)
        self.url = self.proxy.url.replace("tide://127.0.0.1", "tides://localhost")

    def connect(self, url=None, **options):
        options.setdefault("ca", f"{self.dir}/ca.pem")
        client = tidemq.connect(url or self.url, **options)
        self.addCleanup(client.close)
        return client

    def failed(self, pattern, url=None, **options):
        with self.assertRaises(tidemq.ConnectionLost) as caught:
            self.connect(url, **options)
        self.assertRegex(caught.exception.text, pattern)

    def test_payloads_both_ways(self):
        client = self.connect()
        queue = client.declare_queue()
        subscription = client.subscribe(queue, ack="auto")
        with client.pipeline() as pipe:
            for size in (0, 1, 16_384, 16_385, 3 << 20, 16 << 20):
                pipe.publish(queue, random.Random(size).randbytes(size))
        for size in (0, 1, 16_384, 16_385, 3 << 20, 16 << 20):
            self.assertEqual(random.Random(size).randbytes(size), subscription.next(30).payload)
        client.delete_queue(queue)

    def test_a_certificate_of_somebody_else(self):
        self.failed("certificate verify failed", ca=f"{self.dir}/another.pem")
        self.failed("certificate verify failed", ca=None)

    def test_another_name_than_that_of_the_certificate(self):
        self.failed("not valid for '127.0.0.1'", self.url.replace("localhost", "127.0.0.1"))

    def test_a_broker_without_tls(self):
        plain = self.broker.tcp.replace("tide://127.0.0.1", "tides://localhost")
        self.failed("SSL|closed|reset", plain)


class Through(Case):
    def test_a_certificate_of_the_client(self):
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.failed("certificate required|alert|reset|closed|EOF")
        client = self.connect(cert=f"{self.dir}/client.pem", key=f"{self.dir}/client.key")
        client.ping()

    def test_it_reconnects(self):
        client = self.connect()
        client.ping()
        self.proxy.cut()
        client.ping()
        self.assertEqual(2, self.proxy.connections)

    def test_pieces_of_one_byte(self):
        self.proxy.chunk = 1
        client = self.connect()
        client.ping()


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_payloads_both_ways_and_verified_names(self):
        with certificates() as directory:
            broker = Broker("--fsync", "no")
            self.addCleanup(broker.destroy)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(f"{directory}/server.pem", f"{directory}/server.key")
            proxy = Proxy(broker, context)
            self.addCleanup(proxy.close)
            url = proxy.url.replace("tide://127.0.0.1", "tides://localhost")
            async with aio.connect(url, ca=f"{directory}/ca.pem") as client:
                queue = await client.declare_queue()
                payload = random.Random(1).randbytes(4 << 20)
                await client.publish(queue, payload)
                [message] = await client.get(queue)
                self.assertEqual(payload, message.payload)
                await client.delete_queue(queue)
            for wrong in (url.replace("localhost", "127.0.0.1"), url):
                with self.assertRaises(tidemq.ConnectionLost) as caught:
                    ca = "another" if wrong == url else "ca"
                    await aio.connect(wrong, ca=f"{directory}/{ca}.pem")
                self.assertIn("certificate verify failed", caught.exception.text)


class Direct(Case):
    """The broker's own listener."""

    @classmethod
    def arguments(cls):
        return ["--listen", "tls:127.0.0.1:0", "--tls-cert", f"{cls.dir}/server.pem",
                "--tls-key", f"{cls.dir}/server.key"]

    def setUp(self):
        _, port = self.broker.listeners[-1].rsplit(":", 1)
        self.url = f"tides://localhost:{port}/"


del Case  # it is no test of its own

if __name__ == "__main__":
    unittest.main()
