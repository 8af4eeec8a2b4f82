"""The asyncio client: the methods of the blocking one, to be awaited.

A client belongs to one event loop. A task of its own reads, sends heartbeats and reconnects.
Everything that is sent in one turn of the loop leaves in one write.
"""

import asyncio
import functools
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
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
Coro = Coroutine[Any, Any, T]

_CHUNK = 256 * 1024
_UNSENT_MAX = 1024 * 1024


def _method(make: Callable[P, Request[T]]) -> Callable[Concatenate["_Runner", P], Coro[T]]:
    @functools.wraps(make)
    async def method(self: "_Runner", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(make(*args, **kwargs))
    return method


def _later(make: Callable[P, Request[T]],
           ) -> Callable[Concatenate["Pipeline", P], Coro[Pending[T]]]:
    @functools.wraps(make)
    async def method(self: "Pipeline", /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        return await self._submit(make(*args, **kwargs))
    return method


class _Runner:
    """Something whose methods are requests."""

    def __init__(self, client: "Client", number: int,
                 transaction: LinkTransaction | None = None) -> None:
        self._client = client
        self._number = number
        self._transaction = transaction

    async def _run(self, request: Request[T]) -> T:
        client = self._client
        return await client._reply(client._link.submit(request, self._number, self._transaction))

    publish = _method(requests.publish)
    ack = _method(requests.ack)
    nack = _method(requests.nack)


class Channel(_Runner):
    """A conversation of its own: a client is one, and can open more.

    A request that takes time, like get with `wait`, holds up the replies of its channel alone.
    Give it, and each transaction beside other tasks, a channel.
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
        self._news = asyncio.Event()

    async def subscribe(self, name: str, *, sid: str | None = None,
                        **options: Value) -> "Subscription":
        """Subscribe to a queue or topic; the result is an asynchronous iterator of messages.

        Options are those of SUB: prefetch, ack ("manual", "auto"), ack_timeout, priority, rank,
        notify_lease, exclusive; of a topic also group, from_, partition.
        """
        inbox, pending = self._client._link.subscribe(self._number, name, sid, options)
        subscription = Subscription(self, inbox)
        try:
            await self._client._reply(pending)
        except BaseException:
            self._client._link.unsubscribe(inbox)
            raise
        self._subscriptions.append(subscription)
        return subscription

    async def messages(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """The messages of all subscriptions of the channel, in the order of their arrival.

        Ends when there is no subscription any more, or when none has had a message for `timeout`
        seconds. Raises why a subscription has ended.
        """
        while self._subscriptions:
            ready = [found for found in self._subscriptions if found.inbox.has_news]
            if not ready:
                self._news.clear()
                try:
                    async with asyncio.timeout(timeout):
                        await self._news.wait()
                except TimeoutError:
                    return
                continue
            message = min(ready, key=lambda found: found.inbox.first or 0)._take()
            if message is not None:
                yield message

    def pipeline(self, window: int = 1000) -> "Pipeline":
        """Send up to `window` requests without waiting for their replies."""
        return Pipeline(self, window)

    def transaction(self) -> "Transaction":
        """Publishes, acks and nacks that take place together, or not at all.

        `async with client.transaction() as t: await t.publish(…); await t.ack(message)`
        """
        return Transaction(self)

    async def close(self) -> None:
        """End the channel. What it holds goes back."""
        if self._client._link.closed is None:
            await self._client._reply(self._client._link.close_channel(self._number))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()


class Client(Channel):
    """A client, through all its connections. Made by `connect`."""

    def __init__(self, urls: str | Sequence[str] | None, context: ssl.SSLContext | None,
                 options: Options) -> None:
        super().__init__(self, 0)
        self._link = Link(url.parse(url.default(urls)), options)
        self._context = context
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_flushing = False

    async def _open(self) -> Self:
        self._task = asyncio.create_task(self._drive())
        try:
            await self._reply(self._link.submit(requests.ping()))
        except BaseException:
            await self._stop()
            raise
        return self

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return self if self._task is not None else await self._open()

    @property
    def facts(self) -> dict[str, Any]:
        """What the broker said of itself: server, version, protocol, vhost, limits, …"""
        return self._link.facts

    @property
    def is_up(self) -> bool:
        """There is a connection, and everything is restored."""
        return self._link.is_up

    async def channel(self, prefetch: int | None = None) -> Channel:
        """Open another channel. `prefetch` is for all its subscriptions together."""
        number, pending = self._link.open_channel(prefetch)
        await self._reply(pending)
        return Channel(self, number)

    async def close(self) -> None:
        """Say goodbye and disconnect. Replies that are to come are waited for, up to 5 s.

        What the client holds goes back to its queues, and nothing counts as failed."""
        await self._leave(requests.quit())

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        """`close`. But after an Exception there is no goodbye: the message in work may be what
        raised it. The broker counts a failure of it, as it does when the program crashes."""
        is_crash = kind is not None and issubclass(kind, Exception)
        await self._leave(requests.ping() if is_crash else requests.quit())

    async def _leave(self, last: Request[None]) -> None:
        try:
            if self._link.is_up:
                await self._reply(self._link.submit(last), 5.0)
        except Error:
            pass
        finally:
            await self._stop()

    # ---- carrying bytes ----

    async def _reply(self, pending: Pending[T], limit: float | None = None) -> T:
        """Wait for the reply. The time runs while there is a connection."""
        limit = self._link.options.timeout if limit is None else limit
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def on_done(_: Pending[T]) -> None:
            if not future.done():
                future.set_result(None)
        if not pending.is_done:
            pending.on_done = on_done
        self._flush_soon()
        try:
            while not pending.is_done:
                started = loop.time()
                longest = None if limit is None else limit + pending.request.extra_time
                await asyncio.wait([future], timeout=longest)
                if (not pending.is_done and self._link.is_up
                        and self._link.up_since <= started):
                    raise Timeout(f"no reply in {limit:g} s")
            await self._drain()
        except BaseException:
            self._link.abandon(pending)
            raise
        return pending.result()

    async def _drain(self) -> None:
        """Wait while too much is not sent."""
        writer = self._writer
        if writer is not None and writer.transport.get_write_buffer_size() > _UNSENT_MAX:
            try:
                await writer.drain()
            except OSError:
                pass  # the task that reads knows it too

    def _flush_soon(self) -> None:
        if not self._is_flushing and self._link.has_output:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._writer is not None and self._link.has_output:
            self._writer.write(self._link.take_output())

    async def _drive(self) -> None:
        """Connect, carry bytes, and begin again, until the link is closed."""
        try:
            while self._link.closed is None:
                await asyncio.sleep(self._link.delay())
                try:
                    await self._converse()
                except (OSError, Error) as error:
                    self._link.lost(error)
        except Exception as error:
            # A callback of the user, or a fault of this package: nobody may wait for ever.
            self._link.close(ConnectionLost(f"the client has failed: {error!r}"))
            raise

    async def _converse(self) -> None:
        """One connection, until it ends."""
        try:
            async with asyncio.timeout(self._link.options.connect_timeout):
                reader, writer = await self._dial()
        except TimeoutError as error:
            raise ConnectionLost(f"no connection to {self._link.address}: "
                                 f"{error or 'no answer in time'}") from None
        try:
            self._writer = writer
            self._link.connected()
            while True:
                due = self._link.tick()
                self._flush()
                try:
                    async with asyncio.timeout(due):
                        data = await reader.read(_CHUNK)
                except TimeoutError:
                    continue
                if not data:
                    raise ConnectionLost("the broker closed the connection")
                self._link.feed(data)
        finally:
            self._writer = None
            writer.close()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._link.address
        if address.path:
            return await asyncio.open_unix_connection(address.path, limit=_CHUNK)
        if not address.is_tls:
            return await asyncio.open_connection(address.host, address.port, limit=_CHUNK)
        if self._context is None:
            self._context = tls.context()
        return await asyncio.open_connection(address.host, address.port, limit=_CHUNK,
                                             ssl=self._context, server_hostname=address.host)

    async def _stop(self) -> None:
        self._link.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class Subscription:
    """An asynchronous iterator of messages. `async with` ends it; so does `cancel`."""

    def __init__(self, channel: Channel, inbox: Inbox) -> None:
        self._channel = channel
        self.inbox = inbox
        self._news = asyncio.Event()
        inbox.on_change = self._on_change

    def _on_change(self) -> None:
        self._news.set()
        self._channel._news.set()

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

    async def next(self, timeout: float | None = None) -> Message:
        """Wait for a message. Raises Timeout after so many seconds."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    message = self._take()
                    if message is not None:
                        return message
                    if self.inbox.is_ended:
                        raise Closed("the subscription has ended")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Timeout(f"no message in {timeout:g} s") from None

    async def cancel(self) -> None:
        """End it. Messages that nobody has taken go back to their queue."""
        client = self._channel._client
        for pending in client._link.unsubscribe(self.inbox):
            await client._reply(pending)
        self._forget()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.next()
        except Closed:
            if self.inbox.error is not None:
                raise
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.cancel()

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

    Each method returns what waits for its reply: after `flush`, or at the end of `async with`, its
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

    async def _submit(self, request: Request[T]) -> Pending[T]:
        client = self._channel._client
        while len(self._sent) >= self._window or (self._sent and self._sent[0].is_done):
            await self._reap()
        pending = client._link.submit(request, self._channel._number)
        self._sent.append(pending)
        client._flush_soon()
        await client._drain()
        return pending

    async def _reap(self) -> None:
        """Wait for the oldest reply."""
        pending = self._sent.popleft()
        try:
            if pending.is_done:
                pending.result()
            else:
                await self._channel._client._reply(pending)
        except Error as error:
            self._error = self._error or error

    async def flush(self) -> None:
        """Wait for all replies."""
        while self._sent:
            await self._reap()
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if kind is None:
            await self.flush()


class Transaction(_Runner):
    """publish, ack and nack of one transaction; `async with` commits it, an exception rolls it
    back."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel._client, channel._number)
        self.published = 0  #: how many messages COMMIT published
        self.settled = 0  #: how many it acknowledged or returned

    async def begin(self) -> Self:
        """Begin it; `async with` does."""
        link = self._client._link
        transaction, pending = link.begin(self._number)
        self._transaction = transaction
        try:
            await self._client._reply(pending)
        except BaseException:
            link.end(transaction)
            raise
        return self

    async def commit(self) -> None:
        """Carry everything out."""
        try:
            self.published, self.settled = await self._run(requests.commit())
        finally:
            self._end()

    async def rollback(self) -> None:
        """Forget everything."""
        try:
            if self._transaction is not None and not self._transaction.is_lost:
                await self._run(requests.rollback())
        finally:
            self._end()

    def _end(self) -> None:
        if self._transaction is not None:
            self._client._link.end(self._transaction)

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if kind is None:
            await self.commit()
            return
        try:
            await self.rollback()
        except Error:
            pass  # the exception that is on its way says more


def connect(urls: str | Sequence[str] | None = None, *, ca: str | None = None,
            cert: str | None = None, key: str | None = None,
            ssl_context: ssl.SSLContext | None = None, **options: Any) -> Client:
    """`async with connect(…) as client`, or `client = await connect(…)`.

    The arguments are those of tidemq.connect.
    """
    if ssl_context is None and (ca or cert or key):
        ssl_context = tls.context(ca, cert, key)
    return Client(urls, ssl_context, Options(**options))
