"""What a client can ask: each function makes one request, and says what its reply means.

The clients of sync.py and aio.py have these functions as methods. Durations are seconds, or texts
of the protocol like "250ms", or timedeltas.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from . import codec
from .codec import Duration, Message, Value

T = TypeVar("T")
log = logging.getLogger("tidemq")


@dataclass(slots=True)
class Answer:
    """What the broker said to a request that it carried out."""

    words: list[str] = field(default_factory=list)  #: after OK
    body: bytes | None = None  #: of DATA
    messages: list[Message] = field(default_factory=list)  #: of GET

    @property
    def document(self) -> Any:
        """The document of DATA; None if there is none."""
        return None if self.body is None else json.loads(self.body)


#: It fails; it is sent again, which does no harm; what it was to do is done by the loss itself.
OnLoss = Literal["fail", "repeat", "done"]


@dataclass(slots=True)
class Request(Generic[T]):
    """A request, before it is sent."""

    line: str = field(repr=False)  # that of HELLO has a password
    parse: Callable[[Answer], T]
    payload: bytes | None = None
    #: What becomes of it if the connection ends before its reply.
    on_loss: OnLoss = "fail"
    #: A publish without an id. It gets one if the client reconnects, and is repeated then.
    wants_id: bool = False
    #: PUB, ACK and NACK belong to a transaction.
    is_transactional: bool = False
    #: A GET: messages follow its reply.
    has_messages: bool = False
    #: It settles these, and so goes to their channel and dies with their connection.
    messages: tuple[Message, ...] = ()
    #: They are done with (ACK), or what becomes of them is the broker's affair (NACK).
    is_end: bool = False
    #: A declaration: what it makes, and how to make it again. `forgets` undoes it.
    declares: tuple[str, ...] | None = None
    forgets: tuple[str, ...] | None = None
    #: How long the broker may take by the request's own wish, in seconds.
    extra_time: float = 0.0


@dataclass(slots=True, frozen=True)
class Receipt:
    """What a confirmed publish got."""

    id: str = ""  #: of the message; of the first one, if it is a duplicate
    queues: int = 0  #: how many queues and topics took it
    duplicate: bool = False  #: they had it before
    partition: int | None = None  #: of a topic: where it lies
    offset: int | None = None
    queued: bool = False  #: it is part of a transaction; COMMIT is its confirm
    topics: int = 0  #: how many of `queues` are topics


def _nothing(_: Answer) -> None:
    return None


def _warn(answer: Answer) -> None:
    if answer.words[:1] == ["warning"]:
        log.warning("%s", " ".join(answer.words[1:]))


def _count(answer: Answer) -> int:
    """The number of an OK; 0 for one that a transaction keeps."""
    return int(answer.words[0]) if answer.words and answer.words[0].isdigit() else 0


def _receipt(answer: Answer) -> Receipt:
    words = answer.words
    if words[:1] == ["queued"]:
        return Receipt(queued=True)
    place = next((text for text in words[2:] if ":" in text), None)
    partition, offset = place.split(":") if place else (None, None)
    topics = next((text for text in words[2:] if text.startswith("topics=")), None)
    return Receipt(words[0], int(words[1]), "duplicate" in words[2:],
                   None if partition is None else int(partition),
                   None if offset is None else int(offset),
                   topics=int(topics.partition("=")[2]) if topics else int(place is not None))


def _line(*words: str, **options: Value) -> str:
    return " ".join([*words, *codec.options(options)])


def _with(line: str, raw: Mapping[str, Value] | None) -> str:
    return " ".join([line, *codec.raw_options(raw)])


# ---- any request ----


# What changes the state of a channel or connection, which the client keeps.
_OWN = ("BEGIN", "CLOSE", "COMMIT", "HELLO", "OPEN", "QUIT", "ROLLBACK", "SUB", "UNSUB")


def request(line: str, payload: bytes | str | None = None) -> Request[Answer]:
    """Any request of the protocol, as a person types it: `request("STATS jobs").document`.

    `quiet` is refused: this waits for the reply. The length of a payload is added. Such a request
    is not restored after a reconnect. Give transactions to `transaction`.
    """
    words = codec.line(line).split(" ")
    verb = words[0].upper()
    if "quiet" in words[1:]:
        raise ValueError("a request that is quiet has no reply to wait for")
    if verb.startswith("@") or verb in _OWN:
        raise ValueError(f"{words[0]} is the client's own affair: use its methods")
    return Request(line, lambda answer: answer, None if payload is None else codec.raw(payload),
                   has_messages=verb == "GET", is_transactional=verb in ("PUB", "ACK", "NACK"))


def ping() -> Request[None]:
    """Wait for the replies to everything that was sent before."""
    return Request("PING", _nothing, on_loss="repeat")


# ---- what there is ----


def declare_queue(name: str = "", *, options: Mapping[str, Value] | None = None,
                  **more: Value) -> Request[str]:
    """Make a queue, and return its name. Without a name, or for "-", the broker chooses one.

    `declare_queue("jobs", retry="exponential", dead_letter="-/dead", options={"retry.base": "1s"})`
    """
    name = "" if name == "-" else name

    def parse(answer: Answer) -> str:
        words = answer.words
        chosen = words.pop(0) if not name and words else name
        _warn(Answer(words))
        return chosen
    return Request(_with(_line("DECLARE", "queue", codec.word(name), **more), options), parse,
                   on_loss="repeat" if name else "fail", declares=("queue", name))


def declare_exchange(name: str, type: str = "direct", *,
                     options: Mapping[str, Value] | None = None, **more: Value) -> Request[None]:
    """Make an exchange of a type: direct, fanout, topic, headers, or a script of yours."""
    return Request(_with(_line("DECLARE", "exchange", codec.word(name), codec.word(type), **more),
                         options), _warn, on_loss="repeat", declares=("exchange", name))


def declare_topic(name: str, *, options: Mapping[str, Value] | None = None,
                  **more: Value) -> Request[None]:
    """Make a topic: `declare_topic("events", partitions=4, retention="7d")`."""
    return Request(_with(_line("DECLARE", "topic", codec.word(name), **more), options), _warn,
                   on_loss="repeat", declares=("topic", name))


def _delete(kind: str, name: str, if_empty: bool, if_unused: bool) -> Request[None]:
    line = _line("DELETE", kind, codec.word(name), if_empty=if_empty or None,
                 if_unused=if_unused or None)
    return Request(line, _nothing, forgets=(kind, name))


def delete_queue(name: str, *, if_empty: bool = False, if_unused: bool = False) -> Request[None]:
    """Remove a queue with its messages."""
    return _delete("queue", name, if_empty, if_unused)


def delete_exchange(name: str, *, if_unused: bool = False) -> Request[None]:
    """Remove an exchange with its bindings."""
    return _delete("exchange", name, False, if_unused)


def delete_topic(name: str, *, if_unused: bool = False) -> Request[None]:
    """Remove a topic with its messages."""
    return _delete("topic", name, False, if_unused)


def delete_group(topic: str, group: str) -> Request[None]:
    """Forget a group of a topic and its place."""
    return Request(_line("DELETE", "group", codec.word(topic), codec.word(group)), _nothing)


def _binding(verb: str, queue: str, exchange: str, pattern: str, to: str,
             options: Mapping[str, Value] | None) -> tuple[str, tuple[str, ...]]:
    words = _with(_line(codec.word(queue), codec.word(exchange), codec.word(pattern),
                        dest=to if to != "queue" else None), options)
    return f"{verb} {words}", ("binding", to, queue, exchange, words)


def bind(queue: str, exchange: str, pattern: str = "", *, to: str = "queue",
         options: Mapping[str, Value] | None = None) -> Request[None]:
    """Lead messages of the exchange to the queue or topic; with `to="exchange"` to an exchange.

    Of a `headers` exchange the options are conditions: `{"h:region": "eu", "h?express": True}`.
    """
    line, key = _binding("BIND", queue, exchange, pattern, to, options)
    return Request(line, _nothing, on_loss="repeat", declares=key)


def unbind(queue: str, exchange: str, pattern: str = "", *, to: str = "queue",
           options: Mapping[str, Value] | None = None) -> Request[None]:
    """Remove the binding that `bind` made with the same arguments."""
    line, key = _binding("UNBIND", queue, exchange, pattern, to, options)
    return Request(line, _nothing, forgets=key)


# ---- publishing ----


def publish(key: str, payload: bytes | str = b"", *, exchange: str = "",
            headers: Mapping[str, str | bytes] | None = None, id: str | bytes | None = None,
            priority: int | None = None, delay: Duration | None = None,
            ttl: Duration | None = None, ack_timeout: Duration | None = None,
            must: bool = False, expect: int | None = None,
            durable: bool = True) -> Request[Receipt]:
    """Publish, and return when the message is durable.

    Without an exchange the key names a queue or topic. `id` is an id of your own: a queue that has
    seen it does not take the message again. `must` refuses a message that no queue takes. `expect`
    is the offset that the message must get in its topic. With `durable=False` the message may be
    lost with the broker, and is not waited for.
    """
    words = [_line("PUB", codec.word(exchange), codec.word(key), id=id, pri=priority, delay=delay,
                   ttl=ttl, ack_timeout=ack_timeout, expect=expect, must=must or None,
                   durable=None if durable else 0)]
    words += codec.headers(headers)
    return Request(" ".join(words), _receipt, codec.raw(payload), wants_id=id is None and durable,
                   on_loss="fail" if id is None else "repeat", is_transactional=True)


# ---- consuming ----


def get(*queues: str, max: int | None = None, wait: Duration | None = None, ack: str | None = None,
        ack_timeout: Duration | None = None, match: str | None = None, id: str | None = None,
        group: str | None = None, from_: str | int | None = None, partition: int | None = None,
        offset: str | int | None = None) -> Request[list[Message]]:
    """Take messages without a subscription, the first queue first; [] if there is none.

    Of a topic: with a `group`, or to look at a `partition` from an `offset` on.
    """
    if not queues:
        raise ValueError("get takes at least one queue")
    line = _line("GET", *map(codec.word, queues), max=max, wait=wait, ack=ack,
                 ack_timeout=ack_timeout, match=match, id=id, group=group, from_=from_,
                 partition=partition, offset=offset)
    return Request(line, lambda answer: answer.messages, has_messages=True,
                   on_loss="fail" if ack == "auto" else "repeat", extra_time=_seconds(wait))


def ack(*messages: Message) -> Request[int]:
    """The messages are done with. Returns how many, when Redis has forgotten them."""
    return _settle("ACK", messages, is_end=True)


def nack(*messages: Message, delay: Duration | None = None, requeue: bool = False,
         bury: bool = False, dead: bool = False, priority: int | None = None,
         reason: str | None = None) -> Request[int]:
    """The messages could not be dealt with.

    The retry script of the queue says what becomes of them, unless one of these does: `delay`,
    `requeue` (at once), `bury`, `dead` (to the dead-letter target). Whoever gets a message next
    sees the `reason`, in its header x-death-reason-text; the broker keeps 256 bytes of it.
    """
    return _settle("NACK", messages, is_end=True, delay=delay, requeue=requeue or None,
                   bury=bury or None, dead=dead or None, pri=priority,
                   reason=reason[:256] if reason else None)


def touch(*messages: Message, for_: Duration | None = None) -> Request[int]:
    """Ask for more time: the leases begin again, with the duration `for_` or the one they had."""
    return _settle("TOUCH", messages, is_end=False, for_=for_)


def _settle(verb: str, messages: tuple[Message, ...], is_end: bool,
            **options: Value) -> Request[int]:
    tags = [message.tag for message in messages]
    if not tags or None in tags:
        raise ValueError(f"{verb} takes messages that expect an ack")
    if len({(message.channel, message.connection) for message in messages}) > 1:
        raise ValueError(f"{verb} takes messages of one channel and one connection")
    return Request(_line(verb, *map(str, tags), **options), _count, messages=messages,
                   is_transactional=verb != "TOUCH", is_end=is_end)


def seek(topic: str, group: str, position: str | int, *,
         partition: int | None = None) -> Request[None]:
    """Move a group to another place of the topic: "first", "last", an offset, a time."""
    line = _line("SEEK", codec.word(topic), codec.word(group), codec.word(str(position)),
                 partition=partition)
    return Request(line, _nothing, on_loss="repeat")


# ---- what the clients send themselves ----


def begin() -> Request[None]:
    return Request("BEGIN", _nothing)


def commit() -> Request[tuple[int, int]]:
    return Request("COMMIT", lambda answer: (int(answer.words[0]), int(answer.words[1])))


def rollback() -> Request[None]:
    return Request("ROLLBACK", _nothing, on_loss="done")


def open_channel(prefetch: int | None) -> Request[None]:
    return Request(_line("OPEN", prefetch=prefetch), _nothing)


def close_channel() -> Request[None]:
    return Request("CLOSE", _nothing, on_loss="done")


def unsubscribe(sid: str) -> Request[None]:
    return Request(_line("UNSUB", sid), _nothing, on_loss="done")


def requeue(first: int, last: int) -> Request[int]:
    """Give back what was not begun: no failure. Tags between that are not held any more are
    passed over."""
    return Request(_line("NACK", f"{first}-{last}", requeue=True), _count)


def quit() -> Request[None]:
    return Request("QUIT", _nothing, on_loss="done")


def stats(name: str) -> Request[Any]:
    return Request(_line("STATS", codec.word(name)), lambda answer: answer.document)


def _seconds(wait: Duration | None) -> float:
    """How long a GET may wait."""
    if wait is None:
        return 0.0
    if isinstance(wait, str):
        return (codec.parse_duration(wait) or int(wait)) / 1000
    return float(wait) if isinstance(wait, (int, float)) else wait.total_seconds()
