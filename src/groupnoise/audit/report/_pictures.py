"""Pictures as text that stands inside a page: arrays become PNG files, files are embedded."""

from __future__ import annotations

import base64
import mimetypes
import struct
import zlib
from pathlib import Path

import numpy as np

from groupnoise._typing import FloatArray
from groupnoise.exceptions import DataError

LARGEST_BYTES = 200_000
"""A larger file is made smaller first, so that a page of sixty pictures can still be sent."""
THUMBNAIL_SIDE = 256


def picture_of_array(image: FloatArray) -> str:
    """Return a small picture as a data address: ink whose opacity is its darkness.

    Parameters
    ----------
    image : ndarray of shape (height, width)
        Darkness in [0, 1]. Blank is transparent, so a page may have any background.
    """
    darkness = np.rint(np.clip(image, 0.0, 1.0) * 255).astype(np.uint8)
    height, width = darkness.shape
    ink = np.stack([np.zeros_like(darkness), darkness], axis=-1).reshape(height, -1)
    unfiltered = np.zeros((height, 1), dtype=np.uint8)  # PNG: each line begins with its filter
    content = zlib.compress(np.hstack([unfiltered, ink]).tobytes(), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 4, 0, 0, 0)  # 8 bits, grey with opacity
    chunks = (b"IHDR", header), (b"IDAT", content), (b"IEND", b"")
    return _address(
        b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks), "image/png"
    )


def picture_of_file(path: Path) -> str:
    """Return the picture in a file as a data address, made smaller if it is large."""
    kind = mimetypes.guess_type(path.name)[0] or ""
    if not kind.startswith("image/"):
        raise DataError(
            f"{path} does not end like a picture; give paths of .png, .jpg or the like."
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"the picture {path} cannot be read ({error.strerror}).") from None
    if len(content) > LARGEST_BYTES and kind != "image/svg+xml":
        return _thumbnail(path)
    return _address(content, kind)


def _thumbnail(path: Path) -> str:
    import io

    from groupnoise._checks import require

    image = require("PIL.Image", extra="plots").open(path).convert("RGB")
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=80)
    return _address(stream.getvalue(), "image/jpeg")


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def _address(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
