"""The blocking client: each call returns when the broker has answered.

A client belongs to one thread at a time. It has no thread of its own: it reads, sends heartbeats
and reconnects inside the calls alone.
"""

import functools
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from . import requests, tls, url
from .codec import Message, Value
from .errors import Closed, ConnectionLost, Error, Timeout
from .inbox import Inbox
from .link import Link, Options, Pending, Transaction as LinkTransaction
from .requests import Request

P = ParamSpec("P")
T = TypeVar("T")

_CHUNK = 256 * 1024


def _method(make: Callable[P, Request[T]]) -> Callable[Concatenate["_Runner", P], T]:
    @functools.wraps(make)
    def method(self: "_Runner", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(make(*args, **kwargs))
    return method


def _later(make: Callable[P, Request[T]]) -> Callable[Concatenate["Pipeline", P], Pending[T]]:
    @functools.wraps(make)
    def method(self: "Pipeline", /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        return self._submit(make(*args, **kwargs))
    return method


class _Runner:
    """Something whose methods are requests."""

    def __init__(self, client: "Client", number: int,
                 transaction: LinkTransaction | None = None) -> None:
        self._client = client
        self._number = number
        self._transaction = transaction

    def _run(self, request: Request[T]) -> T:
        client = self._client
        return client._reply(client._link.submit(request, self._number, self._transaction))

    publish = _method(requests.publish)
    ack = _method(requests.ack)
    nack = _method(requests.nack)


class Channel(_Runner):
    """A conversation of its own: a client is one, and can open more.

    A request that takes time, like get with `wait`, holds up the replies of its channel alone.
    """

    request = _method(requests.request)
    ping = _method(requests.ping)
    declare_queue = _method(requests.declare_queue)
    declare_exchange = _method(requests.declare_exchange)
    declare_topic = _method(requests.declare_topic)
    delete_queue = _method(requests.delete_queue)
    delete_exchange = _method(requests.delete_exchange)
    delete_topic = _method(requests.delete_topic)
    delete_group = _method(requests.delete_group)
    bind = _method(requests.bind)
    unbind = _method(requests.unbind)
    get = _method(requests.get)
    touch = _method(requests.touch)
    seek = _method(requests.seek)

    def __init__(self, client: "Client", number: int) -> None:
        super().__init__(client, number)
        self._subscriptions: list[Subscription] = []

    def subscribe(self, name: str, *, sid: str | None = None, **options: Value) -> "Subscription":
        """Subscribe to a queue or topic; the result is an iterator of messages.

        Options are those of SUB: prefetch, ack ("manual", "auto"), ack_timeout, priority, rank,
        notify_lease, exclusive; of a topic also group, from_, partition.
        """
        inbox, pending = self._client._link.subscribe(self._number, name, sid, options)
        subscription = Subscription(self, inbox)
        try:
            self._client._reply(pending)
        except BaseException:
            self._client._link.unsubscribe(inbox)
            raise
        self._subscriptions.append(subscription)
        return subscription

    def messages(self, timeout: float | None = None) -> Iterator[Message]:
        """The messages of all subscriptions of the channel, in the order of their arrival.

        Ends when there is no subscription any more, or when none has had a message for `timeout`
        seconds. Raises why a subscription has ended.
        """
        while True:
            deadline = _deadline(timeout)
            while not any(found.inbox.has_news for found in self._subscriptions):
                if not self._subscriptions or _is_over(deadline):
                    return
                self._client._step(deadline)
            found = min((found for found in self._subscriptions if found.inbox.has_news),
                        key=lambda found: found.inbox.first or 0)
            message = found._take()
            if message is not None:
                yield message

    def pipeline(self, window: int = 1000) -> "Pipeline":
        """Send up to `window` requests without waiting for their replies."""
        return Pipeline(self, window)

    def transaction(self) -> "Transaction":
        """Publishes, acks and nacks that take place together, or not at all.

        `with client.transaction() as t: t.publish(…); t.ack(message)`
        """
        return Transaction(self)

    def close(self) -> None:
        """End the channel. What it holds goes back."""
        if self._client._link.closed is None:
            self._client._reply(self._client._link.close_channel(self._number))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Client(Channel):
    """A client, through all its connections. Made by `connect`."""

    def __init__(self, urls: str | Sequence[str] | None, context: ssl.SSLContext | None,
                 options: Options) -> None:
        super().__init__(self, 0)
        self._link = Link(url.parse(url.default(urls)), options)
        self._context = context
        self._socket: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._unsent = bytearray()
        self._dial_at = 0.0
        try:
            self._reply(self._link.submit(requests.ping()))
        except BaseException:
            self._disconnect()
            raise

    @property
    def facts(self) -> dict[str, Any]:
        """What the broker said of itself: server, version, protocol, vhost, limits, …"""
        return self._link.facts

    @property
    def is_up(self) -> bool:
        """There is a connection, and everything is restored. Known as of the last call."""
        return self._link.is_up

    def channel(self, prefetch: int | None = None) -> Channel:
        """Open another channel. `prefetch` is for all its subscriptions together."""
        number, pending = self._link.open_channel(prefetch)
        self._reply(pending)
        return Channel(self, number)

    def close(self) -> None:
        """Say goodbye and disconnect. Replies that are to come are waited for, up to 5 s.

        What the client holds goes back to its queues, and nothing counts as failed."""
        self._leave(requests.quit())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """`close`. But after an Exception there is no goodbye: the message in work may be what
        raised it. The broker counts a failure of it, as it does when the program crashes."""
        is_crash = kind is not None and issubclass(kind, Exception)
        self._leave(requests.ping() if is_crash else requests.quit())

    def _leave(self, last: Request[None]) -> None:
        try:
            if self._link.is_up:
                self._reply(self._link.submit(last), 5.0)
        except Error:
            pass
        finally:
            self._link.close()
            self._disconnect()
            self._selector.close()

    # ---- carrying bytes ----

    def _reply(self, pending: Pending[T], limit: float | None = None) -> T:
        """Wait for the reply. The time runs while there is a connection."""
        limit = self._link.options.timeout if limit is None else limit
        started = time.monotonic()
        try:
            self._step(0.0)
            while not pending.is_done:
                deadline = None
                if self._link.is_up and limit is not None:
                    deadline = (max(started, self._link.up_since) + limit
                                + pending.request.extra_time)
                    if _is_over(deadline):
                        raise Timeout(f"no reply in {limit:g} s")
                self._step(deadline)
        except BaseException:
            self._link.abandon(pending)
            raise
        return pending.result()

    def _step(self, until: float | None) -> None:
        """Send and receive what goes at once; else wait until something happens or is due.

        With `until` in the past it does not wait."""
        if self._link.closed is not None:
            return
        try:
            if self._socket is None:
                self._dial(until)
                return
            due = self._link.tick()
            self._flush()
            wait = due if until is None else max(0.0, until - time.monotonic())
            if due is not None and wait is not None:
                wait = min(wait, due)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            self._selector.modify(self._socket, events)
            for _, ready in self._selector.select(wait):
                if ready & selectors.EVENT_READ:
                    self._receive(self._socket)
            self._flush()
        except (OSError, Error) as error:
            self._lose(error)

    def _push(self) -> None:
        """Send what goes at once."""
        try:
            self._flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        self._disconnect()
        self._link.lost(error)
        self._dial_at = time.monotonic() + self._link.delay()

    def _dial(self, until: float | None) -> None:
        """Connect, when the time has come."""
        wait = self._dial_at - time.monotonic()
        if wait > 0:
            left = wait if until is None else max(0.0, until - time.monotonic())
            time.sleep(min(wait, left))
            if left < wait:
                return
        address = self._link.address
        limit = self._link.options.connect_timeout
        if address.path:
            found = socket.socket(socket.AF_UNIX)
            self._socket = found
            found.settimeout(limit)
            found.connect(address.path)
        else:
            found = socket.create_connection((address.host, address.port), limit)
            self._socket = found
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.is_tls:
                if self._context is None:
                    self._context = tls.context()
                wrapped = self._context.wrap_socket(found, server_hostname=address.host,
                                                    do_handshake_on_connect=False)
                found = self._socket = wrapped
                wrapped.do_handshake()
        found.setblocking(False)
        self._selector.register(found, selectors.EVENT_READ)
        self._link.connected()

    def _flush(self) -> None:
        if self._socket is None:
            return
        if self._link.has_output:
            self._unsent += self._link.take_output()
        while self._unsent:
            try:
                # A slice of the same start and no smaller size, as TLS needs it.
                with memoryview(self._unsent) as whole, whole[:_CHUNK] as part:
                    sent = self._socket.send(part)
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            del self._unsent[:sent]

    def _receive(self, source: socket.socket) -> None:
        while True:
            try:
                data = source.recv(_CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                raise ConnectionLost("the broker closed the connection")
            self._link.feed(data)
            # What TLS has decrypted already makes no socket readable.
            if not isinstance(source, ssl.SSLSocket) or not source.pending():
                return

    def _disconnect(self) -> None:
        found, self._socket = self._socket, None
        self._unsent.clear()
        if found is not None:
            if found in [key.fileobj for key in self._selector.get_map().values()]:
                self._selector.unregister(found)
            found.close()


class Subscription:
    """An iterator of messages. `with` ends it; so does `cancel`."""

    def __init__(self, channel: Channel, inbox: Inbox) -> None:
        self._channel = channel
        self.inbox = inbox

    @property
    def sid(self) -> str:
        """Its name: `message.sid`. A reader of a topic has one for each partition, after a
        reconnect: `s1.0`, `s1.1`."""
        return self.inbox.sid

    @property
    def assigned(self) -> list[int]:
        """With a group: the partitions that it reads now."""
        return self.inbox.assigned

    @property
    def is_active(self) -> bool:
        """Of a single-active queue: this subscription gets the messages."""
        return self.inbox.is_active

    def next(self, timeout: float | None = None) -> Message:
        """Wait for a message. Raises Timeout after so many seconds."""
        deadline = _deadline(timeout)
        is_late = False
        while True:
            message = self._take()
            if message is not None:
                return message
            if self.inbox.is_ended:
                raise Closed("the subscription has ended")
            if is_late:
                raise Timeout(f"no message in {timeout:g} s")
            self._channel._client._step(deadline)
            is_late = _is_over(deadline)

    def cancel(self) -> None:
        """End it. Messages that nobody has taken go back to their queue."""
        client = self._channel._client
        for pending in client._link.unsubscribe(self.inbox):
            client._reply(pending)
        self._forget()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self.next()
        except Closed:
            if self.inbox.error is not None:
                raise
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.cancel()

    def _take(self) -> Message | None:
        try:
            message = self.inbox.take()
        except Error:
            self._forget()
            raise
        if message is None and self.inbox.is_ended:
            self._forget()
        return message

    def _forget(self) -> None:
        if self in self._channel._subscriptions:
            self._channel._subscriptions.remove(self)


class Pipeline:
    """Requests whose replies are waited for together.

    Each method returns what waits for its reply: after `flush`, or at the end of `with`, its
    `result()` is the reply. Both raise the first refusal.
    """

    publish = _later(requests.publish)
    ack = _later(requests.ack)
    nack = _later(requests.nack)
    touch = _later(requests.touch)
    request = _later(requests.request)

    def __init__(self, channel: Channel, window: int) -> None:
        self._channel = channel
        self._window = max(1, window)
        self._sent: deque[Pending[Any]] = deque()
        self._error: Error | None = None

    def _submit(self, request: Request[T]) -> Pending[T]:
        client = self._channel._client
        while len(self._sent) >= self._window or (self._sent and self._sent[0].is_done):
            self._reap()
        pending = client._link.submit(request, self._channel._number)
        self._sent.append(pending)
        if len(self._sent) % 64 == 0:
            client._step(0.0)
        else:
            client._push()
        return pending

    def _reap(self) -> None:
        """Wait for the oldest reply."""
        pending = self._sent.popleft()
        try:
            if pending.is_done:
                pending.result()
            else:
                self._channel._client._reply(pending)
        except Error as error:
            self._error = self._error or error

    def flush(self) -> None:
        """Wait for all replies."""
        while self._sent:
            self._reap()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.flush()


class Transaction(_Runner):
    """publish, ack and nack of one transaction; `with` commits it, an exception rolls it back."""

    def __init__(self, channel: Channel) -> None:
        client = channel._client
        transaction, pending = client._link.begin(channel._number)
        super().__init__(client, channel._number, transaction)
        self._begun = transaction
        self.published = 0  #: how many messages COMMIT published
        self.settled = 0  #: how many it acknowledged or returned
        try:
            client._reply(pending)
        except BaseException:
            client._link.end(transaction)
            raise

    def commit(self) -> None:
        """Carry everything out."""
        try:
            self.published, self.settled = self._run(requests.commit())
        finally:
            self._client._link.end(self._begun)

    def rollback(self) -> None:
        """Forget everything."""
        try:
            if not self._begun.is_lost:
                self._run(requests.rollback())
        finally:
            self._client._link.end(self._begun)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.commit()
            return
        try:
            self.rollback()
        except Error:
            pass  # the exception that is on its way says more


def connect(urls: str | Sequence[str] | None = None, *, ca: str | None = None,
            cert: str | None = None, key: str | None = None,
            ssl_context: ssl.SSLContext | None = None, **options: Any) -> Client:
    """Connect to a broker, or to one of several.

    `urls` is one URL, several with commas between them, or a list; default $TIDEMQ_URL, else
    tide://127.0.0.1:7310/. `ca`, `cert` and `key` are files for tides://, see tidemq.tls.context.
    The options are those of tidemq.Options.
    """
    if ssl_context is None and (ca or cert or key):
        ssl_context = tls.context(ca, cert, key)
    return Client(urls, ssl_context, Options(**options))


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


__all__ = ["Channel", "Client", "Pipeline", "Subscription", "Transaction", "connect"]
