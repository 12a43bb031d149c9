"""When does group weighting help? Every lambda and temperature on every data set at hand.

Each data set is cut 6:2:2 by a seed. Every cell of the grid is fitted on the first part; the
second part judges it twice, by figures that need no true label and by the true labels (the
oracle); the third part is the test. Then the estimators choose for themselves ("auto") on the
first two parts together, beside the oracle's cell fitted on the same. Sets are subsampled and
epochs few, so that the whole takes about 45 minutes of one core; it goes on where it stopped.

    python benchmarks/tradeoff.py                        # everything, then table and heat maps
    python benchmarks/tradeoff.py --seeds 0 --sets lost  # a part of it
    python benchmarks/tradeoff.py --report               # from the cells that are done
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from _record import write_result
from _tradeoff_report import Cell, draw_maps, summarise_cells
from _tradeoff_sets import STUDY_SETS, Figures, Settings, StudySet

from groupnoise.exceptions import MissingDataError
from groupnoise.reproduce.jobs import append_line, read_lines

STRENGTHS = (0.0, 0.1, 0.3, 1.0, 3.0)
SELECTIONS: dict[str, dict[str, Any]] = {
    "10 to 0.5": {"selection": "tempered", "temperature": (10.0, 0.5)},
    "1": {"selection": "tempered", "temperature": (1.0, 1.0)},
    "1 to 0.5": {"selection": "tempered", "temperature": (1.0, 0.5)},
    "1 to 0.2": {"selection": "tempered", "temperature": (1.0, 0.2)},
    "max": {"selection": "max"},
}
AUTOMATIC = {"selection": "tempered", "temperature": "auto", "weighting_strength": "auto"}
LOG = Path("runs/tradeoff/cells.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", default=[study.name for study in STUDY_SETS])
    parser.add_argument("--log", type=Path, default=LOG, help="One line per cell that is done.")
    parser.add_argument("--grid-only", action="store_true", help='Leave out "auto".')
    parser.add_argument("--report", action="store_true", help="Fit nothing.")
    arguments = parser.parse_args()
    log: Path = arguments.log
    log.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.report:
        for seed in arguments.seeds:
            for study in STUDY_SETS:
                if study.name in arguments.sets:
                    run_set(study, seed, log, grid_only=arguments.grid_only)
    order = [study.name for study in STUDY_SETS]
    cells = sorted(read_lines(log, dict), key=lambda cell: order.index(cell["set"]))
    summary = summarise_cells(cells)
    write_result("tradeoff", {"sets": describe_sets(), **summary, "cells": cells})
    draw_maps(summary, Path(__file__).parents[1] / "docs" / "images" / "tradeoff.png")


def run_set(study: StudySet, seed: int, log: Path, *, grid_only: bool) -> None:
    """Fit and evaluate missing cells: the grid, then "auto"."""
    done = [
        cell for cell in read_lines(log, dict) if (cell["set"], cell["seed"]) == (study.name, seed)
    ]
    known = {(cell["strength"], cell["selection"]) for cell in done}
    waiting = [cell for cell in product(STRENGTHS, SELECTIONS) if cell not in known]
    if not waiting and (grid_only or ("auto", "auto") in known):
        return
    try:
        parts = study.cut(seed)
    except MissingDataError as error:
        print(f"{study.name} is left out: {error}")
        return

    def keep(strength: float | str, selection: str, fit_and_judge: Callable[[], Figures]) -> None:
        started = time.process_time()
        cell = {
            "set": study.name,
            "seed": seed,
            "strength": strength,
            "selection": selection,
            "matching_share": parts.matching_share,
            **fit_and_judge(),
            "processor_seconds": round(time.process_time() - started, 2),
        }
        done.append(cell)
        append_line(log, cell)
        print(json.dumps(cell), flush=True)

    for cell in waiting:
        keep(*cell, partial(judge_cell, study, parts, *cell, seed))
    if grid_only:
        return
    oracle = max((cell for cell in done if "oracle" in cell), key=lambda cell: cell["oracle"])
    keep("auto", "auto", partial(judge_automatic, study, parts, oracle, seed))


def settings_of(strength: float, selection: str) -> Settings:
    return {**SELECTIONS[selection], "weighting_strength": strength}


def judge_cell(study: StudySet, parts: Any, strength: float, selection: str, seed: int) -> Figures:
    """Fit on the first part and judge by the other two."""
    return parts.judge(parts.fit({**study.settings, **settings_of(strength, selection)}, seed))


def judge_automatic(study: StudySet, parts: Any, oracle: Cell, seed: int) -> Figures:
    """Fit on the first two parts together: the choice of "auto", and of the oracle."""
    whole = parts.with_held_out()
    automatic = whole.fit({**study.settings, **AUTOMATIC}, seed)
    informed = whole.fit(
        {**study.settings, **settings_of(oracle["strength"], oracle["selection"])}, seed
    )
    return {
        "chosen": [automatic.weighting_strength_, list(automatic.temperature_)],
        "test": whole.test_figure(automatic),
        "oracle_test": whole.test_figure(informed),
    }


def describe_sets() -> dict[str, Any]:
    """Return the settings of each set, as JSON can hold them."""
    return {
        study.name: {"kind": study.kind, "metric": study.metric, **study.settings}
        for study in STUDY_SETS
    }


if __name__ == "__main__":
    main()
