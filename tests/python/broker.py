"""The real broker, for the tests of the Python client: in a directory and on a socket of its own.

process.sh of the integration tests starts it, and ends everything when the test process ends.
"""

import os
import pathlib
import select
import shlex
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("TIDEMQ", ROOT / "build/tidemq")).resolve()
PROCESS = ROOT / "tests/integration/support/process.sh"
RULES = os.environ.get("TIDE_TEST_RULES", ROOT / "rules")
PATIENCE = 15 * float(os.environ.get("TIDE_TEST_PATIENCE", "1"))

WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def wait_for(probe, what="it", seconds=PATIENCE):
    """Call `probe` until it returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen in {seconds:g} s")
        time.sleep(0.005)


class Broker:
    """A broker that listens on a Unix socket, and so has the same address after a restart."""

    def __init__(self, *args):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tidemq-python.")).resolve()
        self._env = os.environ | {"TIDE_TEST_DIR": str(self.dir)}
        self._guard = subprocess.Popen(["bash", PROCESS, "guard"], stdin=subprocess.PIPE,
                                       env=self._env)
        (self.dir / "data").mkdir()
        self._count = 2 + args.count("--listen")
        words = [BINARY, "serve", "--http", "none", "--listen", f"unix:{self.dir}/sock",
                 "--listen", "127.0.0.1:0", "--data", self.dir / "data", "--rules", RULES, *args]
        (self.dir / "command").write_text(f"exec {shlex.join(map(str, words))}\n")
        self.url = f"tide+unix:{self.dir}/sock"
        self.start()

    def start(self):
        """Start it, and wait until it listens."""
        for name in ("pid", "exit", "stdout"):
            (self.dir / name).unlink(missing_ok=True)
        subprocess.run(["bash", PROCESS, "run"], env=self._env, check=True)
        self.listeners = wait_for(self._listening, f"a start of the broker ({self.dir})")
        self.tcp = f"tide://{self.listeners[1]}/"

    def _listening(self):
        if self._read("exit"):
            raise AssertionError(f"the broker ended: {self.log()}")
        found = [line.removeprefix("listening on ") for line in
                 self._read("stdout").split("\n")[:-1] if line.startswith("listening on ")]
        return found if len(found) == self._count and self._read("pid") else None

    def _read(self, name):
        try:
            return (self.dir / name).read_text()
        except FileNotFoundError:
            return ""

    def log(self):
        """What it wrote to standard error."""
        return self._read("stderr")

    def kill(self):
        """kill -9 of the broker; its Redis lives on."""
        os.kill(int(self._read("pid")), signal.SIGKILL)
        wait_for(lambda: self._read("exit"), "the end of the broker")

    def restart(self):
        """kill -9, and start it again."""
        self.kill()
        self.start()

    def destroy(self):
        """End everything, and remove the directory."""
        self._guard.stdin.close()
        self._guard.wait()


class Proxy:
    """Between a client and the broker: it can hold back what the broker says, and cut."""

    def __init__(self, broker, context=None):
        self._context = context  # of TLS, towards the client
        self._target = str(broker.dir / "sock")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"tide://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.is_mute = False  # what the broker says does not pass
        self.held = b""  # and is here
        self.chunk = 1 << 16  # bytes that pass at a time
        self.connections = 0
        self._ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.socket(socket.AF_UNIX)
            try:
                broker.connect(self._target)
            except OSError:
                client.close()
                broker.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._ends += [client, broker]
            threading.Thread(target=self._join, args=(client, broker), daemon=True).start()

    def _join(self, client, broker):
        # In one thread: two must not use one TLS socket.
        with broker:
            try:
                if self._context is not None:
                    client = self._context.wrap_socket(client, server_side=True)
                self._carry(client, broker)
            except OSError:
                pass
            client.close()

    def _carry(self, client, broker):
        # Neither side waits for the other one: the broker may not read before it is read.
        unsent = {client: bytearray(), broker: bytearray()}
        other = {client: broker, broker: client}
        for end in unsent:
            end.setblocking(False)
        while True:
            sources = [end for end in unsent if len(unsent[other[end]]) < 1 << 20]
            # What TLS has decrypted already makes no socket readable.
            has_more = self._context is not None and client in sources and client.pending() > 0
            ready, free, _ = select.select(sources, [end for end in unsent if unsent[end]], [],
                                           0 if has_more else None)
            if has_more and client not in ready:
                ready.append(client)
            for source in ready:
                try:
                    data = source.recv(self.chunk)
                except WOULD_BLOCK:
                    continue
                if not data:
                    return
                if source is broker and self.is_mute:
                    self.held += data
                else:
                    unsent[other[source]] += data
            for sink in free:
                try:
                    sent = sink.send(unsent[sink][:self.chunk])
                except WOULD_BLOCK:
                    continue
                del unsent[sink][:sent]

    @staticmethod
    def _shut(*ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """End all connections. What was held back is lost."""
        self.is_mute = False
        self.held = b""
        ends, self._ends = self._ends, []
        self._shut(*ends)

    def close(self):
        """Take no connection any more."""
        self._shut(self._listener)
        self._listener.close()
        self.cut()
