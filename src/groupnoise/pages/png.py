"""Small pictures as PNG without a library for pictures, ready to stand in a page."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return pixels as a PNG file.

    `pixels` (height, width, 4): red, green, blue and opacity.
    """
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 4 * width), dtype=np.uint8)  # each row begins with its filter, 0
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def data_address(content: bytes, kind: str = "image/png") -> str:
    """Return a file as an address that holds it.

    For the `src` of an image. `kind`: its media type.
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)
