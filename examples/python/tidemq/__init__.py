"""A client of the tidemq message broker. Python 3.11, the standard library alone.

    import tidemq

    with tidemq.connect("tide://127.0.0.1/") as client:
        client.declare_queue("jobs")
        client.publish("jobs", b"hello")
        for message in client.subscribe("jobs"):
            print(message.payload)
            client.ack(message)

`tidemq.aio` has the same for asyncio. docs/python.md is the guide.
"""

from . import aio, tls
from .codec import Duration, Event, Message
from .errors import (Cancelled, Closed, ConnectionLost, Error, LeaseLost, ProtocolError, Refused,
                     Timeout)
from .link import Options, Pending
from .requests import Answer, Receipt
from .sync import Channel, Client, Pipeline, Subscription, Transaction, connect

__all__ = [
    "Answer", "Cancelled", "Channel", "Client", "Closed", "ConnectionLost", "Duration", "Error",
    "Event", "LeaseLost", "Message", "Options", "Pending", "Pipeline", "ProtocolError", "Receipt",
    "Refused", "Subscription", "Timeout", "Transaction", "aio", "connect", "tls",
]
