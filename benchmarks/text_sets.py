r"""A sixth draw of sets: short texts and words without order, as bags and with candidate labels.

    mkdir FOLDER; apt-get update
    /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_bookworm_main_*_Packages* \
        > FOLDER/Packages
    python benchmarks/text_sets.py FOLDER [--seeds 0:2] [--methods NAME ...] [--log FILE] [SET ...]

What Debian says of its programs: a line of text each, or the names of what a program depends on.
The class is the section a program is sorted into. Chosen by that alone, before anything was fitted
on them; drawn as in `keel_sets.py`. *Wide bags* are a hundred bags of 30 to 50 rows, half of them
with at least one row of the section that is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from _later import LaterSet, Packages, Table, run
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from groupnoise import Groups
from groupnoise.io.datasets import BagDataset

SECTIONS = (
    "games", "sound", "mail", "science", "fonts", "graphics", "web", "math", "database", "editors",
    "net", "admin", "text", "video", "electronics", "education",
)  # fmt: skip
N_PROGRAMS = 8_000
N_WIDE = 100


@cache
def programs(folder: Path) -> list[dict[str, str]]:
    """Return the fields of programs of some sections, one for each text, in a random order."""
    found: dict[str, dict[str, str]] = {}
    for paragraph in (folder / "Packages").read_text(encoding="utf-8").split("\n\n"):
        lines = [line.split(": ", 1) for line in paragraph.splitlines() if line[:1].strip()]
        fields = {line[0]: line[1] for line in lines if len(line) == 2}
        if fields.get("Section") in SECTIONS:
            found.setdefault(fields["Description"], fields)
    order = np.random.default_rng(0).permutation(len(found))
    return [list(found.values())[n] for n in order[:N_PROGRAMS]]


def classes_of(rows: list[dict[str, str]]) -> np.ndarray:
    """Return the number of each row's section."""
    return np.array([SECTIONS.index(row["Section"]) for row in rows])


def texts(packages: Packages, n_words: int = 1000) -> Table:
    """Return lines of text as TF-IDF rows."""
    rows = programs(packages.folder)
    words = TfidfVectorizer(min_df=3, max_features=n_words)
    return words.fit_transform(row["Description"] for row in rows).toarray(), classes_of(rows)


def dependencies(packages: Packages) -> Table:
    """Return what programs depend on, as zeros and ones."""
    rows = [row for row in programs(packages.folder) if row.get("Depends")]
    names = CountVectorizer(
        binary=True,
        min_df=10,
        max_features=600,
        tokenizer=lambda line: [each.split()[0] for each in line.replace("|", ",").split(",")],
        token_pattern=None,
    )
    return names.fit_transform(row["Depends"] for row in rows).toarray(), classes_of(rows)


def wide_bags(
    name: str,
    features: np.ndarray,
    classes: np.ndarray,
    generator: np.random.Generator,
    *,
    wide: int,
    rate: float,
) -> BagDataset:
    """Return a hundred bags of 30 to 50 rows, half of them with rows of one class at a rate."""
    is_wanted = classes == wide
    pools = [list(generator.permutation(np.flatnonzero(is_wanted == w))) for w in (False, True)]
    rows = []
    for bag in range(N_WIDE):
        size = int(generator.integers(30, 51))
        wanted = max(1, generator.binomial(size, rate)) if bag % 2 else 0
        drawn = [pools[1].pop() for _ in range(wanted)]
        drawn += [pools[0].pop() for _ in range(size - wanted)]
        rows.append(generator.permutation(drawn))
    flat = np.concatenate(rows)
    return BagDataset(
        name=name,
        bags=Groups(features[flat], np.cumsum([0, *map(len, rows)])),
        labels=(np.arange(N_WIDE) % 2)[:, None] == np.arange(2),
        class_names=["negative", "positive"],
        instance_labels=(classes[flat] == wide).astype(np.int64),
    )


TABLES = {
    "texts": texts,
    "200 words": partial(texts, n_words=200),
    "dependencies": dependencies,
}


@dataclass(frozen=True)
class TextSet(LaterSet):
    """A set whose bags may be wide."""

    def load(self, seed: int, data_dir: Path | None = None) -> Any:
        """Return the data; `data_dir` holds the packages."""
        if "wide" not in self.draw:
            return super().load(seed, data_dir)
        generator = np.random.default_rng([seed, sum(map(ord, self.name))])
        return wide_bags(
            self.name,
            *self.tables[self.source](Packages(data_dir or Path())),
            generator,
            **self.draw,
        )


def number(section: str) -> int:
    """Return the class of a section."""
    return SECTIONS.index(section)


SETS = [
    TextSet(name, "check", source, draw=draw, tables=TABLES)
    for name, source, draw in [
        ("games, wide bags 3 %", "texts", {"wide": number("games"), "rate": 0.03}),
        ("sound, wide bags 5 %", "200 words", {"wide": number("sound"), "rate": 0.05}),
        ("databases, wide bags 3 %", "dependencies", {"wide": number("database"), "rate": 0.03}),
        ("science, wide bags 20 %", "200 words", {"wide": number("science"), "rate": 0.2}),
        ("mail 10 %", "texts", {"positive": number("mail"), "rate": 0.1}),
        ("fonts 30 %", "texts", {"positive": number("fonts"), "rate": 0.3}),
        ("graphics 20 %", "dependencies", {"positive": number("graphics"), "rate": 0.2}),
        ("web, one bag in eight", "texts", {"positive": number("web"), "rate": 0.2, "every": 8}),
        ("four sections", "texts", {"labels": [number(s) for s in SECTIONS[:4]]}),
        ("one of three sections", "texts", {"one": [0, 1, 3], "rate": 0.4}),
        ("texts 1500 uniform", "texts", {"noise": "uniform", "n_rows": 1500}),
        ("texts 1500 correlated", "texts", {"noise": "correlated", "n_rows": 1500}),
        ("texts 1500 instance", "texts", {"noise": "instance", "n_rows": 1500}),
        ("200 words 400 uniform", "200 words", {"noise": "uniform", "n_rows": 400}),
        ("dependencies 2000 uniform", "dependencies", {"noise": "uniform", "n_rows": 2000}),
        ("dependencies 800 instance", "dependencies", {"noise": "instance", "n_rows": 800}),
    ]
]

if __name__ == "__main__":
    run(SETS, __doc__ or "", "text_sets")
