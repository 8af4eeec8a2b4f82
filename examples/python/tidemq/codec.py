"""The line protocol without input and output: requests to bytes, bytes to replies.

docs/protocol.md is the reference. Texts are str; bytes that are no UTF-8 become lone surrogates
(PEP 383) and turn back into the same bytes when they are encoded.
"""

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote_to_bytes

from .errors import ProtocolError

LINE_MAX = 256 * 1024  # what version 0.1.0 stored may come back in lines as long as that
PAYLOAD_MAX = 256 * 1024 * 1024

#: The longest line that the broker takes, without its line end.
REQUEST_MAX = 65534

Duration: TypeAlias = float | str | datetime.timedelta
"""Seconds, or a duration of the protocol like "250ms", or a timedelta."""

Value: TypeAlias = str | bytes | int | float | bool | datetime.timedelta | None

# Numbers that are given for these options are seconds.
_DURATIONS = frozenset(
    "ack-timeout ack-timeout-max dedupe delay expires for heartbeat notify-lease retention ttl "
    "wait".split())

_ENCODED = re.compile(rb"[\x00-\x20%\x7f]")
_FORBIDDEN_IN_WORD = re.compile(r"[\x00-\x20\x7f]")
_FORBIDDEN_IN_LINE = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(slots=True)
class Ok:
    """OK: the words after it."""

    channel: int
    words: list[str]


@dataclass(slots=True)
class Err:
    """ERR: not done."""

    channel: int
    code: str
    text: str


@dataclass(slots=True)
class Data:
    """DATA: the document as it came."""

    channel: int
    body: bytes


@dataclass(slots=True)
class Event:
    """EVT: a line that answers no request. `words` are those after its name."""

    channel: int
    name: str
    words: list[str]

    @property
    def text(self) -> str:
        """The words as they came."""
        return " ".join(self.words)


@dataclass(slots=True)
class Message:
    """A message, from a subscription or from get."""

    channel: int
    sid: str  #: the subscription; "-" for get
    tag: int | None  #: to settle it by; None if no ack is expected
    attempt: int  #: 1 at the first delivery
    exchange: str  #: "" is the default exchange
    key: str
    payload: bytes = b""
    id: str = ""
    ts: int = 0  #: when it was published, in ms since 1970
    priority: int = 0
    partition: int | None = None  #: of a topic: where it lies
    offset: int | None = None
    redelivered: bool = False  #: a consumer may have seen it before
    headers: dict[str, str] = field(default_factory=dict)
    connection: int = 0  #: the number of the connection that it came by


Reply: TypeAlias = Ok | Err | Data
Item: TypeAlias = Ok | Err | Data | Event | Message


def milliseconds(value: Duration) -> str:
    """A duration as a word of the protocol."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    return f"{round(value * 1000)}ms"


_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(text: str) -> int | None:
    """The milliseconds of a duration with a unit; None if the text is none."""
    found = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)", text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def raw(value: str | bytes | bytearray | memoryview) -> bytes:
    """The bytes of a payload or a value. Raises TypeError for what is neither text nor bytes:
    bytes(42) would be 42 zeros."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"payloads and headers are str or bytes, not {type(value).__name__}: "
                    "make a text of it, as with json.dumps(...)")


def quote(value: str | bytes) -> str:
    """The value of an option or a header as the protocol has it."""
    encoded = _ENCODED.sub(lambda match: b"%%%02x" % match[0][0], raw(value))
    return encoded.decode("utf-8", "surrogateescape")


def unquote(value: str) -> str:
    """What `quote` has made of a text."""
    if "%" not in value:
        return value
    raw = unquote_to_bytes(value.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def option(name: str, value: Value) -> str | None:
    """One option as a word. None stands for an option that is not given."""
    if value is None:
        return None
    name = word(name)
    if value is True:
        return name
    if value is False:
        return f"{name}=0"
    if isinstance(value, datetime.timedelta) or (
            name in _DURATIONS and isinstance(value, (int, float))):
        return f"{name}={milliseconds(value)}"
    if isinstance(value, (int, float)):
        return f"{name}={value}"
    return f"{name}={quote(value)}"


def options(values: Mapping[str, Value]) -> Iterator[str]:
    """Options as words. Python's names are allowed: `from_`, `dead_letter`."""
    for name, value in values.items():
        found = option(name.rstrip("_").replace("_", "-"), value)
        if found is not None:
            yield found


def raw_options(values: Mapping[str, Value] | None) -> Iterator[str]:
    """Options whose names are taken as they are, like `retry.base` and `h:tier`."""
    for name, value in (values or {}).items():
        found = option(name, value)
        if found is not None:
            yield found


def headers(values: Mapping[str, str | bytes] | None) -> Iterator[str]:
    """The headers of a publish as words."""
    for name, value in (values or {}).items():
        yield f"h:{word(name)}={quote(value)}"


def word(text: str) -> str:
    """A name or key as a word; an empty one is "-". Raises ValueError for what would break
    the line."""
    if _FORBIDDEN_IN_WORD.search(text):
        raise ValueError(f"{text!r} has white space or control characters: a name or key has none")
    return text or "-"


def line(text: str) -> str:
    """A whole request, as a person types it. Raises ValueError for what would break it."""
    if _FORBIDDEN_IN_LINE.search(text):
        raise ValueError("a request is one line without control characters")
    return text


def encode(request: str, payload: bytes | None = None, channel: int = 0) -> bytes:
    """A request as it goes to the broker."""
    if channel:
        request = f"@{channel} {request}"
    if payload is not None:
        request = f"{request} {len(payload)}"
    start = request.encode("utf-8", "surrogateescape")
    if len(start) > REQUEST_MAX:
        raise ValueError(f"the request is {len(start)} bytes long without its payload, "
                         f"{REQUEST_MAX} at most")
    return start + b"\r\n" if payload is None else b"%b\r\n%b\r\n" % (start, payload)


class Decoder:
    """Bytes from the broker, in pieces of any size, to what they say."""

    def __init__(self) -> None:
        self._input = bytearray()
        self._scanned = 0  # no line end before
        self._waiting: Data | Message | None = None  # for its payload
        self._length = 0

    def feed(self, data: bytes) -> Iterator[Item]:
        """Everything that is whole by now. Raises ProtocolError. Use up the iterator."""
        self._input += data
        start = 0
        try:
            while True:
                if self._waiting is None:
                    end = self._input.find(b"\n", max(start, self._scanned))
                    if end < 0:
                        self._scanned = len(self._input)
                        if self._scanned - start > LINE_MAX:
                            raise ProtocolError(f"a line of more than {LINE_MAX} bytes")
                        return
                    text = self._input[start:end].decode("utf-8", "surrogateescape")
                    start = end + 1
                    self._scanned = start
                    item = self._line(text.removesuffix("\r"))
                    if item is not None:
                        yield item
                else:
                    end = start + self._length
                    if len(self._input) < end + 2:
                        return
                    if self._input[end:end + 2] != b"\r\n":
                        raise ProtocolError("no line end after a payload")
                    body = bytes(memoryview(self._input)[start:end])
                    item, self._waiting = self._waiting, None
                    start = end + 2
                    self._scanned = start
                    if isinstance(item, Data):
                        item.body = body
                    else:
                        item.payload = body
                    yield item
        finally:
            del self._input[:start]
            self._scanned = max(0, self._scanned - start)

    def _line(self, text: str) -> Item | None:
        """What a line says; None if a payload is to come."""
        words = text.split(" ")
        channel = 0
        try:
            if text.startswith("@"):
                channel = int(words.pop(0)[1:])
            kind = words.pop(0)
            if kind == "MSG":
                self._waiting = _message(channel, words)
                self._expect(words[-1])
                return None
            if kind == "OK":
                return Ok(channel, words)
            if kind == "DATA":
                self._waiting = Data(channel, b"")
                self._expect(words[0])
                return None
            if kind == "ERR":
                return Err(channel, words[0], " ".join(words[1:]))
            if kind == "EVT":
                return Event(channel, words[0], words[1:])
        except (ValueError, IndexError):
            pass
        raise ProtocolError(f"not a line of the protocol: {text[:100]!r}")

    def _expect(self, length: str) -> None:
        self._length = int(length)
        if not 0 <= self._length <= PAYLOAD_MAX:
            raise ValueError


def _message(channel: int, words: list[str]) -> Message:
    sid, tag, attempt, exchange, key = words[:5]
    message = Message(channel, sid, None if tag == "-" else int(tag), int(attempt),
                      "" if exchange == "-" else exchange, "" if key == "-" else key)
    for text in words[5:-1]:
        name, _, value = text.partition("=")
        if name.startswith("h:"):
            message.headers[name[2:]] = unquote(value)
        elif name == "id":
            message.id = value
        elif name == "ts":
            message.ts = int(value)
        elif name == "pri":
            message.priority = int(value)
        elif name == "partition":
            message.partition = int(value)
        elif name == "offset":
            message.offset = int(value)
        elif name == "redelivered":
            message.redelivered = True
    return message
