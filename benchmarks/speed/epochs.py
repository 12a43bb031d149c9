"""Processor time of one epoch over a long log, for each kind of member of a plain fit.

    python benchmarks/speed/epochs.py --data DIRECTORY

Logs are MovieLens-1M, if DIRECTORY has it, and one million clicks of 10 000 users on 20 000 items
by Zipf's law. Parameters are those that a plain fit would train with; `windows` are groups of five
clicks, each normalised by itself. `ranking` is the time to rank the last click of every user in
the whole catalogue by the member that was trained.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import recorded, replace_row, write_result

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks import rank_targets
from groupnoise.clicks.evidence.options import DECIDED, DEEP, click_options

N_CLICKS, N_USERS, N_ITEMS = 1_000_000, 10_000, 20_000
MEMBERS = {"windows": "windows", "sum": None, "recurrence": "recurrence", "deep": DEEP}
FILE = "movielens_1m_sasrec.txt.gz"


def zipf_log() -> Groups:
    """Return histories of a hundred clicks each, the r-th item clicked about 1 / r times."""
    generator = np.random.default_rng(0)
    cumulated = np.cumsum(1 / np.arange(1, N_ITEMS + 1))
    items = np.searchsorted(cumulated, generator.random(N_CLICKS) * cumulated[-1])
    return Groups(items, np.arange(N_USERS + 1) * (N_CLICKS // N_USERS))


def movielens(path: Path) -> Groups:
    """Return the histories of MovieLens-1M."""
    with gzip.open(path) as stream:
        users, items = np.loadtxt(stream, dtype=np.int64).T
    _, items = np.unique(items, return_inverse=True)
    begins = np.flatnonzero(np.diff(users, prepend=users[0] - 1))
    return Groups(items, np.append(begins, len(items)))


def measure(log: Groups, encoder: str | None) -> dict[str, Any]:
    """Train one member for its fewest epochs and rank all last clicks with it."""
    n_items = int(log.objects.max()) + 1
    last = log.offsets[1:] - 1
    sizes = log.sizes - 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    histories = Groups(np.delete(log.objects, last), offsets)
    times: list[float] = []
    options = {
        "max_epochs": 1,
        "random_state": 0,
        "on_epoch": lambda record: times.append(time.process_time()),
    }
    if encoder == "windows":
        model = MaxMatchingRecommender(normalization="click", **{**options, "max_epochs": 2})
    else:
        parameters = {
            name: click_options(histories, n_items)[0].parameters[name] for name in DECIDED
        }
        parameters |= {"encoder": encoder, "shared": encoder == DEEP, "init": "random"}
        n_epochs = 1 if encoder == DEEP else 2
        more = {"linear": None, "max_epochs": n_epochs}
        model = MaxMatchingRecommender(**{**parameters, **options, **more})
    model.fit(histories, item_ids=np.arange(n_items))
    started = time.process_time()
    queries = Groups(histories.objects, offsets, log.objects[last])
    rank_targets(model, queries, n_items, "full")
    return {
        "epoch": round(times[1] - times[0], 1),
        "ranking": round(time.process_time() - started, 1),
    }


def main() -> None:
    """Time all members on both logs and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="Holds the .txt.gz file.")
    parser.add_argument("--members", nargs="*", default=list(MEMBERS), choices=list(MEMBERS))
    arguments = parser.parse_args()
    logs = {"zipf": zipf_log()}
    if (arguments.data / FILE).is_file():
        logs["movielens-1m"] = movielens(arguments.data / FILE)
    for log, histories in logs.items():
        for member in arguments.members:
            row = {"log": log, "member": member, **measure(histories, MEMBERS[member])}
            print(row, flush=True)
            keep({**row, "measured": str(date.today()), "load": round(os.getloadavg()[1], 1)})


def keep(row: dict[str, Any]) -> None:
    """Write a row to the result file, beside those of other logs and members."""
    rows = replace_row(recorded("epochs"), row, ("log", "member"))
    command = "python benchmarks/speed/epochs.py --data DIRECTORY"
    write_result("epochs", {"command": command, "seed": 0, "rows": rows})


if __name__ == "__main__":
    main()
