"""One array in one .npy file: its header is matched, not evaluated, and its size checked first."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from groupnoise.exceptions import ModelFileError
from groupnoise.io.files import open_regular

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<>|][fiuS]\d{1,4})', 'fortran_order': False, "
    rb"'shape': \(([\d, ]{0,60})\), \} *\n"
)
"""What numpy writes for plain row-major arrays of numbers and of text, and nothing else."""


class MissingFileError(ModelFileError):
    """A file that a manifest names is not there."""


def read_array(path: Path, entry: Mapping[str, Any], *, memory_map: bool) -> NDArray[Any]:
    """Return the array of a file, mapped, or read and verified against its checksum.

    Parameters
    ----------
    path : path
        A .npy file.
    entry : mapping
        What the manifest says of it: `bytes` and `sha256`.
    memory_map : bool
        True maps the file without reading it.
    """
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != entry.get("bytes"):
                raise ModelFileError(
                    f"{path} has {size} bytes where its manifest says {entry.get('bytes')}: it is "
                    "truncated or was altered. Export the artifact again."
                )
            dtype, shape = _read_header(stream)
            begin = stream.tell()
            if begin + math.prod(shape) * dtype.itemsize != size:
                raise ValueError(f"{size} bytes cannot hold shape {shape} of {dtype}")
            if memory_map:
                return np.memmap(stream, dtype=dtype, mode="r", offset=begin, shape=shape)
            stream.seek(0)
            data = stream.read(size)
    except FileNotFoundError:
        raise MissingFileError(
            f"{path} is missing; restore it or export the artifact again."
        ) from None
    except MemoryError:
        raise ModelFileError(f"{path} does not fit in memory.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error}).") from None
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path} is not a plain .npy array ({error}).") from None
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise ModelFileError(
            f"{path} does not match the checksum in its manifest: it is truncated or was altered. "
            "Export the artifact again."
        )
    # A view of the very bytes that were checked, without a second copy.
    return np.frombuffer(data, dtype=dtype, offset=begin).reshape(shape)


def check_memory_for(paths: Iterable[Path]) -> None:
    """Refuse to read files that together are larger than the memory of this machine."""
    needed = 0
    for path in paths:
        try:
            needed += path.stat().st_size
        except (OSError, ValueError):
            continue  # reading it says what is wrong
    if hasattr(os, "sysconf") and needed > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise ModelFileError(
            f"the arrays of this artifact take {needed / 1e9:.1f} GB, more than the memory of this "
            "machine."
        )


def _read_header(stream: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the dtype and shape a file begins with; the stream is left where the data begin."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as one of version 1")
    header = _HEADER.fullmatch(stream.read(int.from_bytes(stream.read(2), "little")))
    if header is None:
        raise ValueError("its header describes something else")
    dtype = np.dtype(header[1].decode())
    if dtype.itemsize == 0:
        raise ValueError("its entries take no space")
    return dtype, tuple(int(length) for length in header[2].split(b",") if length.strip())
