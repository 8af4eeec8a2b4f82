"""The TLS side of tides:// addresses."""

import os
import ssl


def context(ca: str | None = None, cert: str | None = None,
            key: str | None = None) -> ssl.SSLContext:
    """What a client needs: it verifies the broker's certificate and its name.

    `ca` is a file of authorities (default: $TIDEMQ_TLS_CA, else those of the system), `cert` and
    `key` are files of the client's own certificate.
    """
    found = ssl.create_default_context(cafile=ca or os.environ.get("TIDEMQ_TLS_CA") or None)
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        found.load_cert_chain(cert, key)
    return found
