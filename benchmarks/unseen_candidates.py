"""Candidate labels that nobody tuned for: a default fit and baselines at their defaults.

    python benchmarks/unseen_candidates.py --log runs/unseen_candidates.jsonl
    python benchmarks/unseen_candidates.py --parts check --seeds 0:3

The sets, and which of them may be looked at (design) and which not (check), stand in
`src/groupnoise/reproduce/unseen.toml`; `groupnoise reproduce unseen` runs the same trials. What a
log holds already is not run again. Figures go to `benchmarks/results/unseen_candidates.json`.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import torch
from _record import write_result
from _unseen_tables import METHODS

from groupnoise.cli.demo import parse_seeds
from groupnoise.reproduce.unseen import run_unseen, summarise_unseen
from groupnoise.reproduce.unseen_sets import read_unseen_sets

LARGE = ("letter 20000 uniform",)
"""Not for SURE, which solves with a kernel between all rows: gigabytes and hours."""


def main() -> None:
    """Run missing trials, and write means, ranks, wins and regret."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", default=["design", "check"])
    parser.add_argument("--datasets", nargs="+", help="only these sets")
    parser.add_argument("--seeds", default="0:1", help="FIRST:LAST, the last left out")
    parser.add_argument("--log", type=Path, help="finished trials, read and appended to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = parse_seeds(options.seeds)
    sets = [
        each
        for each in read_unseen_sets()
        if each.setting == "pll"
        and each.part in options.parts
        and (not options.datasets or each.name in options.datasets)
    ]
    results, missing = [], {}
    for methods, some in (
        ((*METHODS["pll"], "sure"), [each for each in sets if each.name not in LARGE]),
        (METHODS["pll"], [each for each in sets if each.name in LARGE]),
    ):
        if some:
            done, absent = run_unseen(
                some, seeds, methods=methods, n_jobs=1, log=options.log, on_result=print
            )
            results += done
            missing |= absent
    write_result(
        "unseen_candidates",
        {
            "share held out": 0.25,
            "seeds": [*seeds],
            "missing": missing,
            "summaries": [asdict(each) for each in summarise_unseen(results)],
            "trials": [asdict(each) for each in results],
        },
    )


if __name__ == "__main__":
    main()
