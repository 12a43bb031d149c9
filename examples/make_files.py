"""Write the three small CSV files that the README uses.

python examples/make_files.py            # bags.csv, candidates.csv and clicks.csv, here
"""

from __future__ import annotations

import csv
from pathlib import Path

from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import make_shop
from groupnoise.io.datasets import subset_rows


def write(path: str, header: list[str], rows: list[list[object]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(header)
        table.writerows(rows)


pixels = [f"pixel{number}" for number in range(64)]

# A bag is five to nine digits under one label; which digit has it is unknown.
bags = load_digit_bags(250, part="train", random_state=0)
names = [bags.class_names[row.argmax()] for row in bags.labels]
write(
    "bags.csv",
    ["bag", "label", *pixels],
    [
        [f"bag{bag}", names[bag], *(16 * features).astype(int)]
        for bag, members in enumerate(bags.bags)
        for features in members
    ],
)

# A row is one digit with two to four candidate labels, one of them right.
digits = subset_rows(load_digit_candidates(part="train", random_state=0), range(400))
write(
    "candidates.csv",
    ["candidates", *pixels],
    [
        [
            ";".join(digits.class_names[label] for label in row.nonzero()[0]),
            *(16 * features).astype(int),
        ]
        for row, features in zip(digits.candidates, digits.features, strict=True)
    ],
)

# A row is one click of a simulated shop; one in five strays.
shop = make_shop(n_users=300, random_state=0)
write(
    "clicks.csv",
    ["user", "item", "time"],
    [
        [f"user{user}", f"item{shop.item_ids[item]}", time]
        for user, history in enumerate(shop.histories)
        for time, item in enumerate(history)
    ],
)
