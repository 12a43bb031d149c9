"""The data sets of `reproduce unseen`: read from the registry, drawn from tables, or generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.groups import Groups
from groupnoise.exceptions import ConfigError
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.io.files import parse_toml
from groupnoise.io.registry import find_dataset

PARTS = ("design", "check")
NOISES = ("uniform", "correlated", "instance")
BAG_SIZES = (20, 41)
"""Range of bag sizes of the sets with given witness rates; 3 % is one of about thirty."""


@dataclass(frozen=True)
class UnseenSet:
    """One data set of the benchmark.

    `name`: in tables.
    `part`: "design", if it may be used while methods are developed, or "check".
    `source`: a name in the registry, or "digit-witnesses", "table" or "shop-without-order".
    `draw`: parameters of how it is drawn; methods have none.
    """

    name: str
    part: str
    source: str
    draw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def setting(self) -> str:
        """One of "mil", "pll" and "rs"."""
        own = {"digit-witnesses": "mil", "table": "pll", "shop-without-order": "rs"}
        return own.get(self.source) or find_dataset(self.source).setting

    def load(self, seed: int, data_dir: Path | None = None) -> Any:
        """Return the data, drawn by the seed."""
        from groupnoise.clicks.shop import make_shop
        from groupnoise.io.named import load_dataset

        generator = np.random.default_rng([seed, sum(map(ord, self.name))])
        if self.source == "digit-witnesses":
            data: Any = digit_bags(generator, **self.draw)
        elif self.source == "table":
            data = candidate_table(generator, data_dir=data_dir, **self.draw)
        elif self.source == "shop-without-order":
            data = shuffle_histories(make_shop(random_state=seed), generator)
        else:
            data = load_dataset(self.source, data_dir=data_dir, random_state=seed)
        return replace(data, name=self.name)


def read_unseen_sets(path: Path | None = None) -> list[UnseenSet]:
    """Return the sets of a file, by default those of the package."""
    if path is None:
        text = resources.files("groupnoise.reproduce").joinpath("unseen.toml").read_text("utf-8")
    else:
        text = path.read_text(encoding="utf-8")
    known = {each.name for each in fields(UnseenSet)}
    found = []
    for table in parse_toml(text).get("set", []):
        foreign = sorted(set(table) - known)
        if foreign:
            raise ConfigError(
                f"a set of `unseen` has the key {foreign[0]!r}; it may say "
                f"{', '.join(sorted(known))} and nothing about methods: one configuration serves "
                "all sets."
            )
        if table.get("part") not in PARTS:
            raise ConfigError(f"the set {table.get('name')!r} must say part = 'design' or 'check'.")
        found.append(UnseenSet(**table))
    return found


def digit_bags(generator: np.random.Generator, *, witness_rate: float, n_bags: int = 200) -> Any:
    """Return positive and negative bags of handwritten digits; nines are positive."""
    from sklearn.datasets import load_digits

    pool = load_digits()
    positive, negative = (
        np.flatnonzero((pool.target == 9) == is_nine) for is_nine in (True, False)
    )
    rows, sizes = [], generator.integers(*BAG_SIZES, size=n_bags)
    for bag, size in enumerate(sizes):
        n_positive = max(1, round(witness_rate * size)) if bag % 2 else 0
        drawn = [
            generator.choice(positive, n_positive),
            generator.choice(negative, size - n_positive),
        ]
        rows.append(generator.permutation(np.concatenate(drawn)))
    flat = np.concatenate(rows)
    labels = (np.arange(n_bags) % 2)[:, None] == np.arange(2)
    return BagDataset(
        name="digits",
        bags=Groups(pool.data[flat].astype(np.float64), offsets_from_sizes(sizes)),
        labels=labels,
        class_names=["negative", "positive"],
        instance_labels=(pool.target[flat] == 9).astype(np.int64),
    )


def candidate_table(
    generator: np.random.Generator,
    *,
    table: str,
    noise: str,
    n_rows: int | None = None,
    data_dir: Path | None = None,
) -> PartialLabelDataset:
    """Return a labelled table with drawn candidate labels."""
    features, truth = _table(table, n_rows, generator, data_dir)
    if n_rows is not None and n_rows < len(truth):
        rows = generator.permutation(len(truth))[:n_rows]
        features, truth = features[rows], truth[rows]
    n_classes = int(truth.max()) + 1
    return PartialLabelDataset(
        name=table,
        features=features,
        candidates=noisy_candidates(features, truth, n_classes, noise, generator),
        class_names=[str(label) for label in range(n_classes)],
        truth=truth,
    )


def _table(
    name: str, n_rows: int | None, generator: np.random.Generator, data_dir: Path | None
) -> tuple[FloatArray, IntArray]:
    from sklearn import datasets

    shipped = {
        "digits": datasets.load_digits,
        "wine": datasets.load_wine,
        "iris": datasets.load_iris,
        "breast-cancer": datasets.load_breast_cancer,
    }
    if name in shipped:
        found = shipped[name]()
        return found.data.astype(np.float64), found.target.astype(np.int64)
    if name == "letter":
        from groupnoise.io.named import read_letters
        from groupnoise.io.registry import locate_dataset

        path = locate_dataset(find_dataset("letter-walk"), data_dir)[0]
        return read_letters(Path(str(path)))
    if name == "cover-like":
        return cover_like(n_rows or 5000, generator)
    if name == "text-like":
        return text_like(n_rows or 1500, generator)
    raise ConfigError(f"there is no table {name!r} to draw candidates for.")


def noisy_candidates(
    features: FloatArray,
    truth: IntArray,
    n_classes: int,
    noise: str,
    generator: np.random.Generator,
) -> BoolArray:
    """Return candidates of rows with known classes; `noise` is one of `NOISES`."""
    from groupnoise.candidates.synthetic import add_candidates

    if noise not in NOISES:
        raise ConfigError(f"noise is one of {', '.join(NOISES)}; got {noise!r}.")
    if noise == "instance":
        return confusable_candidates(features, truth, n_classes, generator)
    most = max(2, min(5, n_classes - 1))
    return add_candidates(
        truth,
        n_classes,
        epsilon=0.9,
        tau=most,
        correlated=noise == "correlated",
        random_state=generator,
    )[0]


def confusable_candidates(
    features: FloatArray, truth: IntArray, n_classes: int, generator: np.random.Generator
) -> BoolArray:
    """Return instance-dependent candidates: labels that a weak linear model finds likely."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit_transform(features)
    some = generator.permutation(len(scaled))[:5000]
    weak = LogisticRegression(C=0.05, max_iter=200).fit(scaled[some], truth[some])
    chance = np.zeros((len(scaled), n_classes))
    chance[:, weak.classes_] = np.sqrt(weak.predict_proba(scaled))
    own = np.arange(len(truth)), truth
    chance[own] = 0.0
    chance *= 0.6 / np.maximum(chance.max(axis=1, keepdims=True), 1e-12)
    drawn: BoolArray = generator.random(chance.shape) < chance
    drawn[own] = True
    return drawn


def cover_like(n_rows: int, generator: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return a table like that of Covertype: skewed numbers, soils, imbalanced classes."""
    n_soils, n_classes = 20, 7
    hidden = generator.normal(size=(n_rows, 6))
    numbers = hidden @ generator.normal(size=(6, 10)) + 0.7 * generator.normal(size=(n_rows, 10))
    numbers[:, :3] = np.exp(numbers[:, :3] / 3)
    numbers *= 10 ** generator.uniform(-2, 3, 10)
    soil = generator.integers(n_soils, size=n_rows)
    logits = 1.2 * hidden @ generator.normal(size=(6, n_classes))
    logits += generator.normal(size=(n_soils, n_classes))[soil]
    logits += 2.0 * np.sin(1.5 * hidden @ generator.normal(size=(6, n_classes)))
    logits += np.log([0.36, 0.48, 0.06, 0.03, 0.03, 0.03, 0.04])
    truth = (1.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    features = np.hstack([numbers, np.eye(n_soils)[soil]])
    return features, truth.astype(np.int64)


def text_like(n_rows: int, generator: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return short texts as TF-IDF rows: common words, and some words of a topic each."""
    n_words, n_topics, of_topic = 500, 20, 0.12
    common = 1.0 / np.arange(1, n_words + 1)
    topics = generator.dirichlet(np.full(n_words, 0.05), size=n_topics)
    truth = generator.choice(n_topics, size=n_rows, p=generator.dirichlet(np.full(n_topics, 3.0)))
    lengths = np.maximum(5, generator.poisson(generator.gamma(2, 30, size=n_rows)))
    chances = (1 - of_topic) * common / common.sum() + of_topic * topics
    counts = np.array(
        [generator.multinomial(n, chances[t]) for n, t in zip(lengths, truth, strict=True)]
    )
    weighted = np.log1p(counts) * np.log(n_rows / ((counts > 0).sum(axis=0) + 1))
    norms = np.linalg.norm(weighted, axis=1, keepdims=True)
    return weighted / np.maximum(norms, 1e-9), truth.astype(np.int64)


def shuffle_histories(dataset: ClickDataset, generator: np.random.Generator) -> ClickDataset:
    """Return a log with the order inside each history shuffled."""
    histories = dataset.histories
    order = np.lexsort((generator.random(histories.n_objects), histories.group_of_object))
    shuffled = Groups(np.asarray(histories.objects)[order], histories.offsets)
    return replace(dataset, histories=shuffled, is_stray=None, notes={}, timestamps=None)
