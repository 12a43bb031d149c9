"""Arrays on disk as `.npy` files: appended to while they grow, memory mapped afterwards."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from groupnoise.core.arrays import blocks
from groupnoise.exceptions import DataError

ArrayEntry = dict[str, Any]
"""What a manifest records of an array: file, dtype, shape, and the SHA-256 of its values."""


class ArrayWriter:
    """Writes an array whose length is not known beforehand.

    `path`: a `.npy` file; replaced unless `n_rows` asks to append to it.
    `dtype`: of the values.
    `n_rows`: how many rows of an interrupted file to keep; what follows them is cut off.
    """

    def __init__(
        self, path: Path, dtype: DTypeLike, row_shape: tuple[int, ...] = (), *, n_rows: int = 0
    ) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.row_shape = row_shape
        self.n_rows = 0
        self._digest = hashlib.sha256()
        self._stream = path.open("r+b" if n_rows else "w+b")
        self._write_header()
        if n_rows:
            self._keep(n_rows)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows at the end."""
        values = np.ascontiguousarray(rows, dtype=self.dtype)
        if values.shape[1:] != self.row_shape:
            raise ValueError(f"rows of shape {values.shape[1:]} do not fit {self.row_shape}")
        data = _bytes_of(values)
        self._digest.update(data)
        self._stream.write(data)
        self.n_rows += len(values)

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        self._stream.flush()

    def finish(self) -> ArrayEntry:
        """Complete the file and return its entry for the manifest."""
        self._write_header()
        self._stream.close()
        return {
            "file": self.path.name,
            "dtype": self.dtype.str,
            "shape": [self.n_rows, *self.row_shape],
            "sha256": self._digest.hexdigest(),
        }

    def _write_header(self) -> None:
        # numpy leaves room in the header for the first axis to grow, so it can be written anew.
        self._stream.seek(0)
        np.lib.format.write_array_header_1_0(
            self._stream,
            {
                "descr": np.lib.format.dtype_to_descr(self.dtype),
                "fortran_order": False,
                "shape": (self.n_rows, *self.row_shape),
            },
        )

    def _keep(self, n_rows: int) -> None:
        n_bytes = n_rows * self.dtype.itemsize * int(np.prod(self.row_shape, dtype=np.int64))
        begin = self._stream.tell()
        self._stream.truncate(begin + n_bytes)
        while block := self._stream.read(min(1 << 20, n_bytes - (self._stream.tell() - begin))):
            self._digest.update(block)
        self._stream.seek(begin + n_bytes)
        self.n_rows = n_rows


def write_array(path: Path, values: NDArray[Any]) -> ArrayEntry:
    """Write a whole array and return its entry for the manifest."""
    with ArrayWriter(path, values.dtype, values.shape[1:]) as writer:
        for _, part in blocks(values):
            writer.append(part)
        return writer.finish()


def map_array(folder: Path, entry: ArrayEntry, *, verify: bool = False) -> NDArray[Any]:
    """Return an array as a read-only memory map after comparing it with its entry."""
    name = entry.get("file")
    # A manifest may come from anywhere: never follow a path out of its own folder.
    if not isinstance(name, str) or Path(name).name != name:
        raise DataError(f"{folder} names an array file outside of itself; write it again.")
    path = folder / name
    try:
        values: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; convert the data again.") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged ({error}); convert the data again.") from None
    found = {"dtype": values.dtype.str, "shape": list(values.shape)}
    if found != {key: entry.get(key) for key in found}:
        raise DataError(
            f"{path} holds {found['dtype']} values of shape {values.shape}, not what its manifest "
            "says; convert the data again."
        )
    if verify and hashlib.sha256(_bytes_of(values)).hexdigest() != entry.get("sha256"):
        raise DataError(
            f"{path} does not match the checksum in its manifest: it was altered; convert the "
            "data again."
        )
    return values


def _bytes_of(values: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
