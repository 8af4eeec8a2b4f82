"""What one subscription has received, and how to subscribe again after a reconnect."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from . import codec
from .codec import Message, Value
from .errors import Error


class Inbox:
    """One subscription, through all connections."""

    def __init__(self, channel: int, sid: str, name: str, options: Mapping[str, Value],
                 now: float) -> None:
        self.channel = channel
        self.sid = sid
        self.name = name  #: of the queue or topic
        self.options = {key.rstrip("_").replace("_", "-"): value
                        for key, value in options.items() if value is not None}
        #: Without a group. Of a topic the client itself must know how far it has read.
        self.is_reader = "group" not in self.options
        self.is_subscribed = False
        self.is_ended = False
        self.error: Error | None = None
        self.is_active = False  #: of a single-active queue: this one gets the messages
        self.assigned: list[int] = []  #: of a topic with a group: its partitions
        self.on_change: Callable[[], None] = lambda: None
        self._messages: OrderedDict[str, tuple[int, Message]] = OrderedDict()
        self._started = now
        self._next: dict[int, int] = {}  # partition to offset: what comes after the last one
        self._held: dict[int, set[int]] = {}  # partition to offsets: not acknowledged

    def put(self, serial: int, message: Message) -> None:
        """A message has arrived.

        One that is here already was taken back while it waited, because the consumer settled
        nothing for a whole lease. What comes now has the tag that counts, and its place."""
        key = _key(message) or f"{serial}"
        if key in self._messages:
            if message.redelivered:
                serial = self._messages[key][0]
            else:
                key = f"{serial}"
        self._messages[key] = (serial, message)
        if self.is_reader and message.partition is not None and message.offset is not None:
            following = self._next.get(message.partition, 0)
            self._next[message.partition] = max(following, message.offset + 1)
            if message.tag is not None:
                self._held.setdefault(message.partition, set()).add(message.offset)
        self.on_change()

    @property
    def first(self) -> int | None:
        """The serial number of the next message; None if there is none."""
        return next(iter(self._messages.values()))[0] if self._messages else None

    @property
    def has_news(self) -> bool:
        """There is a message to take, or the end to tell."""
        return bool(self._messages) or self.is_ended

    def take(self) -> Message | None:
        """The next message. When there is none and will be none, raises why it ended."""
        if self._messages:
            return self._messages.popitem(last=False)[1][1]
        if self.error is not None:
            raise self.error
        return None

    def done(self, message: Message) -> None:
        """It is acknowledged. If its lease had ended, it may have come again meanwhile."""
        self._messages.pop(_key(message), None)

    def settled(self, message: Message) -> None:
        """The consumer is done with it, or has given it back."""
        if message.partition is not None and message.offset is not None:
            self._held.get(message.partition, set()).discard(message.offset)

    def end(self, error: Error | None = None) -> None:
        """Nothing more will come."""
        self.is_ended = True
        self.error = error
        self.on_change()

    def lose(self) -> list[Message]:
        """Drop what has not been taken and must be acknowledged: the broker gives it out again,
        or is asked to."""
        lost = [message for _, message in self._messages.values() if message.tag is not None]
        self._messages = OrderedDict((key, item) for key, item in self._messages.items()
                                     if item[1].tag is None)
        self.assigned = []
        self.is_active = False
        return lost

    def lines(self, partitions: int | None, now: float) -> list[tuple[str, str]]:
        """The sid and the line of each SUB that goes on where this one is.

        `partitions` is how many the topic has; None for a queue, and for the first SUB.
        """
        first = [(self.sid, self._line(self.sid, self.options))]
        if partitions is None or not self.is_reader:
            return first
        if "partition" in self.options:
            only = int(str(self.options["partition"]))
            return [(self.sid, self._line(self.sid, self.options | self._place(only, now)))]
        return [(sid, self._line(sid, self.options | {"partition": n} | self._place(n, now)))
                for n in range(partitions) for sid in [f"{self.sid}.{n}"]]

    def _place(self, partition: int, now: float) -> dict[str, Value]:
        """Where a reader goes on: at the first message that is not done with."""
        held = self._held.pop(partition, None)
        if held:
            self._next[partition] = min(held)
        if partition in self._next:
            return {"from": self._next[partition]}
        # Nothing has come. What was the end then, or some time before then, lies by now so much
        # longer ago.
        elapsed = round((now - self._started) * 1000) + 1
        start = self.options.get("from", "last")
        if start == "last":
            return {"from": f"{elapsed}ms"}
        ago = codec.parse_duration(start) if isinstance(start, str) else None
        return {} if ago is None else {"from": f"{ago + elapsed}ms"}

    def _line(self, sid: str, options: Mapping[str, Value]) -> str:
        return " ".join(["SUB", codec.word(self.name), codec.word(sid), *codec.options(options)])


def _key(message: Message) -> str:
    """What a message is known by, however often it comes; "" if it comes once (ack="auto")."""
    if message.tag is None:
        return ""
    return message.id if message.partition is None else f"{message.partition}:{message.offset}"
