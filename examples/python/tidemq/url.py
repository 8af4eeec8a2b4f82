"""Addresses of brokers: tide://, tides:// and tide+unix:."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PORT = 7310


@dataclass(frozen=True, slots=True)
class Address:
    """One broker. The password is in no text of it."""

    host: str = ""
    port: int = PORT
    path: str = ""  #: of a Unix socket, instead of host and port
    vhost: str = "/"
    user: str = ""
    password: str = field(default="", repr=False)
    is_tls: bool = False

    def __str__(self) -> str:
        if self.path:
            return f"tide+unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        vhost = "/" if self.vhost == "/" else f"/{self.vhost}"
        return f"{'tides' if self.is_tls else 'tide'}://{host}:{self.port}{vhost}"


def default(urls: str | Sequence[str] | None) -> str | Sequence[str]:
    """What to use if none is given."""
    return urls or os.environ.get("TIDEMQ_URL") or f"tide://127.0.0.1:{PORT}/"


def parse(urls: str | Sequence[str]) -> list[Address]:
    """The addresses of a list, or of a text with commas between them. Raises ValueError."""
    if isinstance(urls, str):
        urls = urls.split(",")
    addresses = [_parse_one(url.strip()) for url in urls]
    if not addresses:
        raise ValueError("no URL given")
    return addresses


def _parse_one(url: str) -> Address:
    # A sentence about the URL does not show it: it may have a password.
    scheme, colon, _ = url.partition(":")
    if scheme == "tide+unix" and colon:
        return _parse_unix(url)
    if scheme not in ("tide", "tides") or not colon:
        raise ValueError("a URL begins with tide://, tides:// or tide+unix:")
    try:
        parts = urlsplit(url)
        port = PORT if parts.port is None else parts.port
    except ValueError:
        raise ValueError("a URL is tide://[user:pass@]host[:port]/vhost; "
                         "the port is 1 to 65535") from None
    if not parts.hostname or port == 0:
        raise ValueError("a URL is tide://[user:pass@]host[:port]/vhost")
    if parts.query or parts.fragment:
        raise ValueError("a tide:// URL has no ? and no #; write them as %3f and %23")
    return Address(host=unquote(parts.hostname), port=port,
                   vhost=unquote(parts.path.removeprefix("/")) or "/",
                   user=unquote(parts.username or ""), password=unquote(parts.password or ""),
                   is_tls=scheme == "tides")


def _parse_unix(url: str) -> Address:
    path, _, query = url.removeprefix("tide+unix:").partition("?")
    # Not parse_qs: a plus sign is a plus sign.
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    values = {name: unquote(value) for name, _, value in pairs}
    if not path or not set(values) <= {"vhost", "user", "pass"}:
        raise ValueError("a URL is tide+unix:/path/of/socket[?vhost=name&user=name&pass=word]")
    return Address(path=unquote(path), vhost=values.get("vhost") or "/",
                   user=values.get("user", ""), password=values.get("pass", ""))
