"""Array files: named arrays of `.npz` and MATLAB, and `.npy` files written in blocks or mapped."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from groupnoise.core.arrays import IntArray, blocks
from groupnoise.core.words import counted, error_text
from groupnoise.exceptions import DataError, MissingColumnError
from groupnoise.io.columns.names import USUAL_NAMES
from groupnoise.io.files import manifest_file_path
from groupnoise.io.tables.sources import Report, Source, find_source
from groupnoise.io.tables.table import Table, read_table

ARRAY_FORMATS = ("npz", "mat")


@dataclass(frozen=True)
class NamedArrays:
    """The arrays of one file."""

    arrays: dict[str, NDArray[Any]]
    path: str
    name: str

    def find(self, part: str, given: str | None, report: Report) -> NDArray[Any] | None:
        """Return the array of a role by the given or a usual name, or None."""
        if given is not None:
            if given not in self.arrays:
                raise MissingColumnError(
                    f"{self.path} has no array {given!r} to be the {part}; it holds "
                    f"{self._listing()}.",
                    part,
                )
            return self.arrays[given]
        by_lower_name = {name.lower(): name for name in reversed(self.arrays)}
        for usual in (*USUAL_NAMES.get(part, ()), part):
            if usual in by_lower_name:
                name = by_lower_name[usual]
                if name != part:
                    report(f"took array {name!r} as the {part}")
                return self.arrays[name]
        return None

    def need(self, part: str, given: str | Sequence[str] | None, report: Report) -> NDArray[Any]:
        """Return the array of a role, or raise an error that says how to name it."""
        if given is not None and not isinstance(given, str):
            raise MissingColumnError(
                f"{self.path} holds arrays: name the one that is the {part}.", part
            )
        array = self.find(part, given, report)
        if array is None:
            raise DataError(
                f"{self.path} has no array that looks like the {part}; name it with `{part}` "
                f"(--{part}). It holds {self._listing()}."
            )
        return array

    def class_names(self, n_classes: int, report: Report) -> list[str]:
        """Return the names of the classes, numbers if the file has none."""
        names = self.find("class_names", None, report)
        if names is None:
            return [str(number) for number in range(n_classes)]
        if names.size != n_classes:
            raise DataError(
                f"{self.path}: {counted(names.size, 'class names')} came with "
                f"{counted(n_classes, 'classes')}."
            )
        return [str(name) for name in names.ravel()]

    def as_table(self) -> Table:
        """Return arrays of one entry per row as the columns of a table."""
        columns = {name: values.ravel() for name, values in self.arrays.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise DataError(
                f"{self.path}: arrays of one length are needed to read them as columns; it holds "
                f"{self._listing()}."
            )
        return Table(
            pl.DataFrame(columns), self.name, self.path, lambda row: f"{self.path}, row {row}"
        )

    def _listing(self) -> str:
        return ", ".join(f"{name} {values.shape}" for name, values in self.arrays.items())


def load_arrays(source: Source) -> NamedArrays:
    """Return the arrays of one `.npz` or `.mat` file; pickled objects are refused."""
    if len(source.paths) > 1:
        raise DataError(
            f"{source.paths[0]} and others were given; arrays are read one file a time."
        )
    path = source.paths[0]
    load = _load_npz if source.format == "npz" else _load_mat
    return NamedArrays(load(path, source.read_bytes(path)), path, source.name)


def check_array_rows(origin: str, part: str, array: NDArray[Any], n_rows: int) -> None:
    """Refuse an array that has not one entry per row of the features."""
    if len(array) != n_rows:
        raise DataError(
            f"{origin}: the {part} has {counted(len(array), 'entries')} for "
            f"{counted(n_rows, 'feature rows')}; "
            "one per row is needed."
        )


def turn_rows_first(
    origin: str, part: str, array: NDArray[Any], n_rows: int, report: Report
) -> NDArray[Any]:
    """Return a matrix with one row per instance, transposed if it lay the other way round."""
    if array.ndim != 2 or n_rows not in array.shape:
        raise DataError(
            f"{origin}: the {part} of shape {array.shape} does not fit "
            f"{counted(n_rows, 'feature rows')}."
        )
    if array.shape[0] == n_rows:
        return array
    report(f"{origin} stores the {part} as labels x instances; transposed it")
    return array.T


def class_index(values: NDArray[Any], class_names: Sequence[str], origin: str) -> IntArray:
    """Return class numbers from names or positions."""
    position = {name: number for number, name in enumerate(class_names)}
    text = [str(value) for value in values.tolist()]
    if all(value in position or value == "-1" for value in text):
        return np.array([position.get(value, -1) for value in text], dtype=np.int64)
    is_position = values.dtype.kind in "iuf" and np.array_equal(values, np.floor(values))
    if is_position and values.min() >= -1 and values.max() < len(class_names):
        return values.astype(np.int64)
    row = next(row for row, value in enumerate(text) if value not in position)
    raise DataError(
        f"{origin}: the truth of row {row} is {text[row]}, which is not one of the "
        f"{len(class_names)} labels; correct it, or write -1 where it is unknown."
    )


def _load_npz(path: str, content: bytes) -> dict[str, NDArray[Any]]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(
                    f"{path} is a single array; an .npz archive of named ones is needed."
                )
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError):
        raise DataError(
            f"{path} is not a whole .npz file: it is cut off or damaged; fetch it again."
        ) from None
    except ValueError as error:
        raise DataError(
            f"{path} cannot be read safely ({error}); save it again with plain arrays, for "
            "pickled objects can run code and are refused."
        ) from None


def _load_mat(path: str, content: bytes) -> dict[str, NDArray[Any]]:
    import scipy.io
    from scipy import sparse

    try:
        variables = scipy.io.loadmat(io.BytesIO(content))
    except NotImplementedError:
        raise DataError(
            f"{path} is a MATLAB 7.3 file; save it again in MATLAB with `save(..., '-v7')`."
        ) from None
    except Exception as error:  # scipy raises many kinds on damaged files
        raise DataError(
            f"{path} is not a whole MATLAB file: it is cut off or damaged ({error_text(error)}); "
            "fetch it again."
        ) from None
    return {
        name: values.toarray() if sparse.issparse(values) else values
        for name, values in variables.items()
        if not name.startswith("__") and (sparse.issparse(values) or isinstance(values, np.ndarray))
    }


def read_input(
    source: Any,
    *,
    report: Report,
    format: str | None = None,
    filesystem: Any = None,
    encoding: str | None = None,
    read_text: Callable[[Source, Report], Table] | None = None,
    **form: Any,
) -> Table | NamedArrays:
    """Open a path, folder, glob, address or frame; see `read_table` for the parameters.

    `read_text` reads text whose cells are apart by blanks, unless a separator or a header is
    named; by default it is a table as any other.
    """
    if isinstance(source, (str, Path)):
        source = find_source(source, format=format, filesystem=filesystem, encoding=encoding)
        if source.format in ARRAY_FORMATS:
            return load_arrays(source)
        is_plain = form.get("separator") is None and form.get("header") is None
        if source.format == "text" and read_text and is_plain:
            return read_text(source, report)
    return read_table(source, report=report, **form)


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

    def __exit__(self, *error: object) -> None:
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
        # numpy pads the header so that the first axis can grow, so it can be rewritten.
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
    refused = DataError(f"{folder} names an array file outside of itself; write it again.")
    path = manifest_file_path(folder, entry, refused)
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
