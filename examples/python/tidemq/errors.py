"""What can go wrong. What the broker or the connection refuses is an Error and has a code.

A wrong argument is a TypeError or a ValueError, as everywhere in Python.
"""


class Error(Exception):
    """The base of all.

    `code` is for programs, `text` is a sentence for people. The codes of Refused are those of
    docs/protocol.md; the other classes have the code that they name below.
    """

    code = "error"

    def __init__(self, text: str, code: str | None = None) -> None:
        self.text = text
        if code is not None:
            self.code = code
        super().__init__(f"{self.code}: {text}")


class Refused(Error):
    """The broker answered ERR with this code. The connection goes on."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text, code)


class LeaseLost(Refused):
    """The message is no longer this client's: its lease is over, it was settled, or the connection
    that it came by has ended. Unless it was settled it comes again, so a worker can go on."""


class ConnectionLost(Error):
    """The connection ended, and it is not known what became of the request."""

    code = "connection"


class Timeout(Error):
    """No reply, or no message, came in time. The connection goes on."""

    code = "timeout"


class Cancelled(Error):
    """The broker ended a subscription, because its queue or topic was deleted."""

    code = "cancelled"


class Closed(Error):
    """The client has been closed, or it gave up reconnecting."""

    code = "closed"


class ProtocolError(Error):
    """The other side does not speak the protocol."""

    code = "protocol"
