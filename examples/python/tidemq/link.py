"""The dialogue with the broker through all connections, without input and output.

A driver (sync.py, aio.py) makes the connections, carries the bytes and says when time passes. The
link keeps what must outlive a connection: declarations, subscriptions, requests without a reply.
"""

import random
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import codec, requests
from .codec import Data, Err, Event, Message, Reply, Value
from .errors import Cancelled, Closed, ConnectionLost, Error, LeaseLost, ProtocolError, Refused
from .inbox import Inbox
from .requests import Answer, Request
from .url import Address

T = TypeVar("T")

# A broker that answers so while a client restores what it had will be asked again.
_PASSING = ("busy", "limit", "shutdown", "store")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a client behaves. Times are seconds."""

    name: str = ""  #: what LIST connections shows
    #: 1 to 3600: both sides show that they live. A blocking client does so inside its calls alone:
    #: it must be longer than the work between two of them.
    heartbeat: float | None = None
    prefetch: int | None = None  #: of all subscriptions of the client together
    timeout: float | None = 30.0  #: for a reply, while there is a connection
    connect_timeout: float = 10.0  #: for one attempt
    reconnect: bool = True
    #: Publishes get an id of their own, so that a repetition is stored once.
    ids: bool = True
    #: How long an outage may last. None is for ever.
    give_up_after: float | None = None
    backoff_first: float = 0.1
    backoff_max: float = 10.0
    #: Called with a state and a sentence: "connected", "lost", "retrying", "restored",
    #: "not restored" (a declaration was refused), "gave up". It must not use the client.
    on_state: Callable[[str, str], None] | None = None
    #: Called with each event, see docs/protocol.md. It must not use the client.
    on_event: Callable[[Event], None] | None = None


class Pending(Generic[T]):
    """A request that waits for its reply, or has it."""

    def __init__(self, request: Request[T], channel: int, serial: int) -> None:
        self.request = request
        self.channel = channel
        self.serial = serial
        self.data = b""
        self.on_loss = request.on_loss
        self.is_done = False
        self.is_abandoned = False  # nobody waits for it any more
        self.is_internal = False  # it dies with its connection
        self.on_done: Callable[["Pending[T]"], None] | None = None  # the driver's
        self.then: Callable[["Pending[T]"], None] | None = None  # the link's, before that
        self.answer: Answer | None = None
        self.missing = 0  # messages of a GET that are to come
        self.error: Error | None = None
        self._value: T | None = None

    def result(self) -> T:
        """What the request has brought, or its exception."""
        if not self.is_done:
            raise RuntimeError("there is no reply yet")
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]

    def finish(self, answer: Answer) -> None:
        """The broker has carried it out."""
        try:
            self._value = self.request.parse(answer)
        except (ValueError, IndexError):
            raise ProtocolError("a reply that does not fit its request") from None
        self._end()

    def fail(self, error: Error) -> None:
        """It was refused, or there will be no reply."""
        self.error = error
        self._end()

    def _end(self) -> None:
        self.is_done = True
        if self.then is not None:
            self.then(self)
        if self.on_done is not None:
            self.on_done(self)


class Transaction:
    """BEGIN to COMMIT on one channel. It ends with its connection."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.is_begun = False
        self.is_lost = False
        self.is_dropped = False  # nobody waits for the reply to its BEGIN


class _Channel:
    def __init__(self, number: int, prefetch: int | None) -> None:
        self.number = number
        self.prefetch = prefetch
        self.is_open = number == 0
        self.sent: deque[Pending[Any]] = deque()
        self.inboxes: dict[str, Inbox] = {}  # by the sid on the wire
        self.transaction: Transaction | None = None


class Link:
    """One client's side of the dialogue."""

    def __init__(self, addresses: list[Address], options: Options,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.is_connected = False  # bytes go back and forth
        self.is_up = False  # and everything is restored
        self.closed: Error | None = None
        self.facts: dict[str, Any] = {}  # what HELLO was answered
        self._addresses = addresses
        self.up_since = 0.0
        self._at = 0  # the address in use
        self._attempts = 0  # since the last time that it was up
        self._was_up = False
        self._clock = clock
        self._connection = 0
        self._serial = 0
        self._sids = 0
        self._id = uuid.uuid4().hex
        self._output = bytearray()
        self._decoder = codec.Decoder()
        self._channels: dict[int, _Channel] = {0: _Channel(0, None)}
        self._waiting: deque[Pending[Any]] = deque()  # to be sent once it is up
        self._declared: dict[tuple[str, ...], Request[Any]] = {}
        self._inboxes: list[Inbox] = []
        self._restoring = 0  # replies that are to come
        self._partitions: dict[str, int | None] = {}  # of topics that are read without a group
        self._is_greeted = False  # HELLO is answered
        self._is_suspect = False  # the broker has said nothing, as far as the driver has read
        self._connected_at = 0.0
        self._goodbye = ""  # what EVT closed said
        self._fatal: Error | None = None
        self._down_since = clock()
        self._sent_at = self._heard_at = clock()

    # ---- for the driver: connections ----

    @property
    def address(self) -> Address:
        """Where to connect to next, or where it is connected to."""
        return self._addresses[self._at]

    def delay(self) -> float:
        """How long to wait before the next attempt. Each round of the addresses doubles it."""
        rounds, place = divmod(self._attempts, len(self._addresses))
        if place > 0 or not self._was_up:
            return 0.0
        longest = min(self.options.backoff_max, self.options.backoff_first * 2.0 ** min(rounds, 30))
        return longest * random.uniform(0.5, 1.0)

    def connected(self) -> None:
        """There is a connection to `address`."""
        self.is_connected = True
        self._connection += 1
        self._decoder = codec.Decoder()
        self._goodbye = ""
        self._is_greeted = self._is_suspect = False
        self._connected_at = self._sent_at = self._heard_at = self._clock()
        address, options = self.address, self.options
        hello = {"user": address.user or None, "pass": address.password or None,
                 "vhost": None if address.vhost == "/" else address.vhost,
                 "name": options.name or None, "heartbeat": options.heartbeat,
                 "prefetch": options.prefetch}
        words = " ".join(["HELLO", *codec.options(hello)])
        self._send_internal(Request(words, lambda answer: answer.document), 0, self._on_hello)

    def lost(self, error: Exception) -> None:
        """The connection has ended, or could not be made."""
        if self.closed is not None:
            return
        why = self._goodbye or (error.text if isinstance(error, Error) else str(error))
        was_up = self.is_up
        self.is_connected = self.is_up = False
        self._output.clear()
        if was_up:
            self._down_since = self._clock()
        else:
            self._attempts += 1
            self._at = (self._at + 1) % len(self._addresses)
        failed = self._collect_losses()
        if self._is_over():
            # Those who wait learn it from the close below.
            self._waiting.extend(failed)
            self.close(self._reason(why))
            return
        for pending in failed:
            if pending.on_loss == "done":
                pending.finish(Answer())
            else:
                pending.fail(self._loss_of(pending, why))
        self._say("lost" if was_up else "retrying", why)

    def _collect_losses(self) -> list[Pending[Any]]:
        """Requests that the end of the connection ends; the others wait for the next one."""
        repeated: list[Pending[Any]] = []
        failed: list[Pending[Any]] = []
        for channel in self._channels.values():
            for pending in channel.sent:
                if pending.is_internal:
                    continue
                pending.answer, pending.missing = None, 0
                is_wanted = pending.on_loss == "repeat" and not pending.is_abandoned
                (repeated if is_wanted else failed).append(pending)
            channel.sent.clear()
            channel.inboxes.clear()
            if channel.transaction is not None and channel.transaction.is_begun:
                channel.transaction.is_lost = True
        for pending in self._waiting:
            (failed if pending.request.messages else repeated).append(pending)
        self._waiting = deque(sorted(repeated, key=lambda pending: pending.serial))
        for inbox in self._inboxes:
            inbox.lose()
        return failed

    def _is_over(self) -> bool:
        if not self._was_up:
            # The first connection: each address is tried once.
            return self._fatal is not None or self._attempts >= len(self._addresses)
        after = self.options.give_up_after
        return (self._fatal is not None or not self.options.reconnect
                or (after is not None and self._clock() - self._down_since >= after))

    def _reason(self, why: str) -> Error:
        if self._fatal is not None:
            return self._fatal
        if self._was_up and self.options.reconnect:
            return ConnectionLost(f"gave up after {self.options.give_up_after} s: {why}")
        return ConnectionLost(why)

    def _loss_of(self, pending: Pending[Any], why: str) -> Error:
        if pending.request.messages:
            return LeaseLost("lease-lost", "the connection ended before the reply: the message "
                                           "comes again unless it was settled")
        return ConnectionLost(f"not known whether it was carried out: {why}")

    def close(self, error: Error | None = None) -> None:
        """The end: everything that waits fails. Without an error the caller wants it."""
        if self.closed is not None:
            return
        self.closed = error or Closed("the client is closed")
        self.is_up = self.is_connected = False
        waiting = [pending for channel in self._channels.values() for pending in channel.sent]
        waiting += self._waiting
        for channel in self._channels.values():
            channel.sent.clear()
        self._waiting.clear()
        for pending in waiting:
            if pending.is_internal:
                continue
            pending.fail(self._loss_of(pending, self.closed.text) if error is None
                         else self.closed)
        for inbox in list(self._inboxes):
            inbox.end(error)
        self._inboxes.clear()
        if error is not None:
            self._say("gave up", error.text)

    def tick(self) -> float | None:
        """Do what is due. Returns the seconds until there is more to do; None is never.

        Raises ConnectionLost if the broker is silent for too long."""
        if not self.is_connected:
            return None
        now = self._clock()
        why = self._silence(now)
        if why is not None:
            if self._is_suspect:
                raise ConnectionLost(why)
            # The driver itself may have been away: it reads what has arrived first.
            self._is_suspect = True
            return 0.001
        due = []
        if not self._is_greeted:
            due.append(self._connected_at + self.options.connect_timeout)
        beat = self.options.heartbeat
        if beat is not None:
            if now - self._sent_at >= beat / 2:
                self._output += b"\r\n"
            due += [max(self._sent_at, now - beat / 2) + beat / 2, self._heard_at + 2 * beat]
        return max(0.0, min(due) - now) + 0.001 if due else None

    def _silence(self, now: float) -> str | None:
        """What the broker should have said by now."""
        if not self._is_greeted and now >= self._connected_at + self.options.connect_timeout:
            return "the broker does not answer"
        beat = self.options.heartbeat
        if beat is not None and now - self._heard_at > 2 * beat:
            return f"the broker was silent for {2 * beat:g} s"
        return None

    # ---- for the driver: bytes ----

    def take_output(self) -> bytes:
        """The bytes to send now."""
        if self._output:
            self._sent_at = self._clock()
        data = bytes(self._output)
        self._output.clear()
        return data

    @property
    def has_output(self) -> bool:
        return bool(self._output)

    def feed(self, data: bytes) -> None:
        """Bytes have arrived. Raises what ends the connection."""
        self._heard_at = self._clock()
        self._is_suspect = False
        for item in self._decoder.feed(data):
            if isinstance(item, Message):
                self._on_message(item)
            elif isinstance(item, Event):
                self._on_event(item)
            else:
                self._on_reply(item)

    # ---- for the driver: requests ----

    def submit(self, request: Request[T], channel: int = 0,
               transaction: Transaction | None = None) -> Pending[T]:
        """Send a request now, or as soon as there is a connection again."""
        if self.closed is not None:
            raise self.closed
        if request.messages:
            channel = request.messages[0].channel
        state = self._state(channel)
        if request.is_transactional:
            self._check_transaction(state, transaction)
        if transaction is not None and transaction.is_lost:
            raise ConnectionLost("the transaction ended with its connection: nothing was applied")
        if any(message.connection != self._connection for message in request.messages) or (
                request.messages and not self.is_connected):
            raise _stale()
        pending = self._pending(request, channel)
        line = request.line
        if request.wants_id and self.options.reconnect and self.options.ids and not transaction:
            line = f"{line} id={self._id}-{pending.serial}"
            pending.on_loss = "repeat"
        pending.data = codec.encode(line, request.payload, channel)
        if self.is_up:
            self._send(pending)
        else:
            self._waiting.append(pending)
        return pending

    def abandon(self, pending: Pending[Any]) -> None:
        """Nobody waits for the reply any more. Messages that it brings go back."""
        pending.is_abandoned = True
        pending.on_done = None
        if pending in self._waiting:
            self._waiting.remove(pending)
            pending.fail(Closed("it was not sent"))
        if pending.is_done and pending.error is None:
            self._give_back(pending.answer.messages if pending.answer else [])

    def begin(self, channel: int) -> tuple[Transaction, Pending[None]]:
        """Begin a transaction on the channel."""
        state = self._state(channel)
        if state.transaction is not None:
            raise Error("the channel has a transaction already", "transaction")
        pending = self.submit(requests.begin(), channel)
        transaction = state.transaction = Transaction(channel)

        def then(done: Pending[None]) -> None:
            transaction.is_begun = True
            if transaction.is_dropped and done.error is None:
                self._send_internal(requests.rollback(), channel, None)
            if transaction.is_dropped or done.error is not None:
                self.end(transaction)
        pending.then = then
        return transaction, pending

    def end(self, transaction: Transaction) -> None:
        """The transaction is over: COMMIT or ROLLBACK is answered, or is not needed.

        Until BEGIN is answered no other request may slip into it."""
        if not transaction.is_begun:
            transaction.is_dropped = True
            return
        state = self._channels.get(transaction.channel)
        if state is not None and state.transaction is transaction:
            state.transaction = None

    def open_channel(self, prefetch: int | None) -> tuple[int, Pending[None]]:
        """Open another channel."""
        number = next(n for n in range(1, 65536) if n not in self._channels)
        state = self._channels[number] = _Channel(number, prefetch)

        def then(done: Pending[None]) -> None:
            state.is_open = done.error is None
            if done.error is not None:
                self.forget_channel(number)
        try:
            pending = self.submit(requests.open_channel(prefetch), number)
        except Error:
            self.forget_channel(number)
            raise
        pending.then = then
        return number, pending

    def close_channel(self, number: int) -> Pending[None]:
        """Close it; its subscriptions end."""
        pending = self.submit(requests.close_channel(), number)
        for inbox in [inbox for inbox in self._inboxes if inbox.channel == number]:
            self._inboxes.remove(inbox)
            inbox.end()
        pending.then = lambda _: self.forget_channel(number)
        return pending

    def forget_channel(self, number: int) -> None:
        """CLOSE is answered, or OPEN was refused."""
        self._channels.pop(number, None)

    def subscribe(self, channel: int, name: str, sid: str | None,
                  options: Mapping[str, Value]) -> tuple[Inbox, Pending[None]]:
        """Subscribe to a queue or topic."""
        state = self._state(channel)
        if sid is None:
            self._sids += 1
            sid = f"s{self._sids}"
        inbox = Inbox(channel, sid, name, options, self._clock())
        if any(other.channel == channel and other.sid == sid for other in self._inboxes):
            raise Refused("exists", f"the channel has a subscription '{sid}'")
        line = inbox.lines(None, self._clock())[0][1]
        # A SUB that a lost connection has swallowed is one of those to restore.
        pending = self.submit(Request(line, lambda _: None, on_loss="done"), channel)
        self._inboxes.append(inbox)
        state.inboxes[sid] = inbox

        def then(done: Pending[None]) -> None:
            inbox.is_subscribed = done.error is None
            if done.error is not None:
                self._remove(inbox, done.error)
        pending.then = then
        return inbox, pending

    def unsubscribe(self, inbox: Inbox) -> list[Pending[None]]:
        """End a subscription. What nobody has taken from it goes back."""
        if inbox not in self._inboxes:
            return []
        state = self._state(inbox.channel)
        sids = [sid for sid, found in state.inboxes.items() if found is inbox]
        self._inboxes.remove(inbox)
        left = len(sids)

        def then(_: Pending[None]) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                for sid in sids:
                    state.inboxes.pop(sid, None)
                self._give_back(inbox.lose())
                inbox.end()
        if not self.is_connected or not sids:
            inbox.lose()
            inbox.end()
            return []
        found = []
        for sid in sids:
            pending = self.submit(requests.unsubscribe(sid), inbox.channel)
            pending.then = then
            found.append(pending)
        return found

    # ---- inside ----

    def _say(self, state: str, text: str) -> None:
        if self.options.on_state is not None:
            self.options.on_state(state, text)

    def _state(self, channel: int) -> _Channel:
        state = self._channels.get(channel)
        if state is None:
            raise Closed("the channel is closed")
        return state

    def _check_transaction(self, state: _Channel, transaction: Transaction | None) -> None:
        if state.transaction is transaction:
            return
        if transaction is None:
            raise Error("the channel has a transaction: use its methods, or another channel",
                        "transaction")
        if state.number != transaction.channel:
            raise Error("the message came by another channel than that of the transaction",
                        "transaction")
        raise Error("the transaction is over", "transaction")

    def _pending(self, request: Request[T], channel: int) -> Pending[T]:
        self._serial += 1
        return Pending(request, channel, self._serial)

    def _send(self, pending: Pending[Any]) -> None:
        self._output += pending.data
        if pending.on_loss != "repeat":
            pending.data = b""
        self._channels[pending.channel].sent.append(pending)

    def _send_internal(self, request: Request[Any], channel: int,
                       then: Callable[[Pending[Any]], None] | None) -> None:
        """A request of the link itself, for this connection alone."""
        pending = self._pending(request, channel)
        pending.is_internal = True
        pending.then = then
        pending.data = codec.encode(request.line, None, channel)
        self._send(pending)

    def _give_back(self, messages: list[Message]) -> None:
        """Return what nobody has begun, in ranges: one message that is not held any more must not
        keep the others here, and a line has an end."""
        held = [message for message in messages
                if message.tag is not None and message.connection == self._connection]
        if not held or not self.is_connected or held[0].channel not in self._channels:
            return
        for first, last in _ranges(sorted(message.tag or 0 for message in held)):
            self._send_internal(requests.requeue(first, last), held[0].channel, None)

    def _remove(self, inbox: Inbox, error: Error | None) -> None:
        if inbox in self._inboxes:
            self._inboxes.remove(inbox)
        state = self._channels.get(inbox.channel)
        if state is not None:
            state.inboxes = {sid: found for sid, found in state.inboxes.items()
                             if found is not inbox}
        inbox.end(error)

    # ---- inside: restoring ----

    def _on_hello(self, pending: Pending[Any]) -> None:
        if pending.error is not None:
            if pending.error.code not in _PASSING:
                self._fatal = pending.error
            raise pending.error
        self.facts = pending.result()
        self._is_greeted = True
        self._restore_definitions()

    def _restore_definitions(self) -> None:
        """First what subscriptions need: definitions, channels, the numbers of partitions."""
        self._restoring = 1

        def on_declared(request: Request[Any]) -> Callable[[Pending[Any]], None]:
            def on_done(pending: Pending[Any]) -> None:
                if pending.error is not None:
                    self._check_passing(pending.error)
                    self._declared.pop(request.declares or (), None)
                    self._say("not restored", f"{request.line}: {pending.error}")
                self._restored(self._restore_subscriptions)
            return on_done

        def on_answered(pending: Pending[Any]) -> None:
            if pending.error is not None:
                self._check_passing(pending.error)
            self._restored(self._restore_subscriptions)

        for request in list(self._declared.values()):
            self._restoring += 1
            self._send_internal(request, 0, on_declared(request))
        for channel in self._channels.values():
            if channel.number and channel.is_open:
                self._restoring += 1
                self._send_internal(requests.open_channel(channel.prefetch), channel.number,
                                    on_answered)
        self._partitions = {}
        if self._was_up:
            for name in {inbox.name for inbox in self._inboxes if inbox.is_reader}:
                self._restoring += 1

                def on_stats(pending: Pending[Any], name: str = name) -> None:
                    if pending.error is None:
                        self._partitions[name] = pending.result().get("partitions")
                    on_answered(pending)
                self._send_internal(requests.stats(name), 0, on_stats)
        self._restored(self._restore_subscriptions)

    def _restore_subscriptions(self) -> None:
        self._restoring = 1

        def on_subscribed(inbox: Inbox) -> Callable[[Pending[Any]], None]:
            def on_done(pending: Pending[Any]) -> None:
                if pending.error is not None:
                    self._check_passing(pending.error)
                    self._remove(inbox, pending.error)
                self._restored(self._restored_all)
            return on_done

        for inbox in list(self._inboxes):
            state = self._channels[inbox.channel]
            if not inbox.is_subscribed:
                state.inboxes[inbox.sid] = inbox  # its SUB is among the requests that wait
                continue
            for sid, line in inbox.lines(self._partitions.get(inbox.name), self._clock()):
                state.inboxes[sid] = inbox
                self._restoring += 1
                self._send_internal(Request(line, lambda _: None), inbox.channel,
                                    on_subscribed(inbox))
        self._restored(self._restored_all)

    def _check_passing(self, error: Error) -> None:
        if error.code in _PASSING:
            raise ConnectionLost(f"could not restore everything: {error}")

    def _restored(self, and_then: Callable[[], None]) -> None:
        self._restoring -= 1
        if self._restoring == 0:
            and_then()

    def _restored_all(self) -> None:
        state = "restored" if self._was_up else "connected"
        self.is_up = self._was_up = True
        self.up_since = self._clock()
        self._attempts = 0
        waiting, self._waiting = self._waiting, deque()
        for pending in waiting:
            self._send(pending)
        self._say(state, str(self.address))

    # ---- inside: what the broker says ----

    def _on_reply(self, reply: Reply) -> None:
        channel = self._channels.get(reply.channel)
        if channel is None or not channel.sent or channel.sent[0].missing > 0:
            raise ProtocolError("a reply to nothing")
        pending = channel.sent[0]
        if isinstance(reply, Err):
            channel.sent.popleft()
            kind = LeaseLost if reply.code == "lease-lost" else Refused
            pending.fail(kind(reply.code, reply.text))
            return
        if isinstance(reply, Data):
            pending.answer = Answer(body=reply.body)
        else:
            pending.answer = Answer(words=reply.words)
            if pending.request.has_messages:
                pending.missing = int(reply.words[0])
        if pending.missing == 0:
            self._answered(channel)

    def _answered(self, channel: _Channel) -> None:
        """The first request of the channel has all that it gets."""
        pending = channel.sent.popleft()
        answer = pending.answer or Answer()
        self._note(pending.request, answer)
        if pending.is_abandoned:
            self._give_back(answer.messages)
        pending.finish(answer)

    def _note(self, request: Request[Any], answer: Answer) -> None:
        """What a request that was carried out changes for the next connection."""
        if request.declares is not None:
            if request.declares == ("queue", "") and answer.words:
                # The broker has chosen the name: next time it is asked for.
                name = answer.words[0]
                words = request.line.split(" ")
                request.line = " ".join([*words[:2], name, *words[3:]])
                request.declares = ("queue", name)
            words = request.line.split(" ")
            if "update" not in words and "update=1" not in words:
                self._declared[request.declares] = request
            else:
                # What it was declared with holds no more.
                self._declared.pop(request.declares, None)
        if request.forgets is not None:
            gone = request.forgets
            self._declared = {key: value for key, value in self._declared.items()
                              if key != gone and not _concerns(key, gone)}
        if request.is_end:
            for message in request.messages:
                for inbox in self._inboxes:
                    if not self._is_of(inbox, message):
                        continue
                    if inbox.is_reader:
                        inbox.settled(message)
                    if request.line.startswith("ACK "):
                        inbox.done(message)

    def _is_of(self, inbox: Inbox, message: Message) -> bool:
        return self._channels[inbox.channel].inboxes.get(message.sid) is inbox \
            and inbox.channel == message.channel

    def _on_message(self, message: Message) -> None:
        message.connection = self._connection
        channel = self._channels.get(message.channel)
        if channel is None:
            return
        if message.sid == "-":
            pending = channel.sent[0] if channel.sent else None
            if pending is None or pending.answer is None or pending.missing == 0:
                raise ProtocolError("a message that no GET asked for")
            pending.answer.messages.append(message)
            pending.missing -= 1
            if pending.missing == 0:
                self._answered(channel)
            return
        inbox = channel.inboxes.get(message.sid)
        if inbox is not None:
            self._serial += 1
            inbox.put(self._serial, message)

    def _on_event(self, event: Event) -> None:
        if event.name == "closed":
            self._goodbye = " ".join(event.words[1:])
        elif event.name in ("cancelled", "active", "relieved", "assigned") and event.words:
            channel = self._channels.get(event.channel)
            inbox = channel.inboxes.get(event.words[0]) if channel is not None else None
            if inbox is not None:
                self._on_subscription_event(inbox, event)
        if event.name != "heartbeat" and self.options.on_event is not None:
            self.options.on_event(event)

    def _on_subscription_event(self, inbox: Inbox, event: Event) -> None:
        if event.name == "cancelled":
            inbox.lose()
            self._remove(inbox, Cancelled(f"subscription to '{inbox.name}': "
                                          f"{' '.join(event.words[1:])}"))
        elif event.name == "assigned":
            partitions = event.words[1]
            inbox.assigned = [] if partitions == "-" else [int(n) for n in partitions.split(",")]
        else:
            inbox.is_active = event.name == "active"


def _ranges(tags: list[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of tags without a gap."""
    first = last = tags[0]
    for tag in tags[1:]:
        if tag != last + 1:
            yield first, last
            first = tag
        last = tag
    yield first, last


def _stale() -> LeaseLost:
    return LeaseLost("lease-lost", "the connection that the message came by has ended: the broker "
                                   "gives the message out again")


def _concerns(key: tuple[str, ...], gone: tuple[str, ...]) -> bool:
    """A binding goes with either of its ends."""
    if key[0] != "binding":
        return False
    _, to, destination, exchange, _ = key
    kind, name = gone[0], gone[1]
    if kind == "exchange":
        return exchange == name or (to == "exchange" and destination == name)
    return kind in ("queue", "topic") and to == "queue" and destination == name
