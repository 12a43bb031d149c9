"""Reading HTTP with a bound on the head of a request: its first line and its headers.

uvicorn's h11 protocol has such a bound; its quicker httptools protocol keeps whatever comes.
"""

from __future__ import annotations

import asyncio
from typing import Literal

MOST_HEAD_BYTES = 65_536


def http_protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    """Return the protocol to serve with: httptools where it is installed, bounded; else h11."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class BoundedHeadProtocol(HttpToolsProtocol):
        """Refuses a head that goes on beyond the bound.

        Whole reads are counted, from the one after the head began, because only the parser knows
        where in a read that was.
        """

        _is_in_head = True
        _n_head_bytes = 0

        def data_received(self, data: bytes) -> None:
            """Parse what arrived, and end the connection where the head has grown too large."""
            self._n_head_bytes += len(data)
            super().data_received(data)
            is_too_large = self._is_in_head and self._n_head_bytes > MOST_HEAD_BYTES
            if is_too_large and not self.transport.is_closing():
                self.send_400_response(f"The request head is larger than {MOST_HEAD_BYTES} bytes.")

        def on_message_begin(self) -> None:
            """Count anew: one connection carries many requests."""
            super().on_message_begin()
            self._is_in_head, self._n_head_bytes = True, 0

        def on_headers_complete(self) -> None:
            """Stop counting: the guard bounds the body."""
            self._is_in_head = False
            super().on_headers_complete()

    return BoundedHeadProtocol
