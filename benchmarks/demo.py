"""The figures of `groupnoise demo`, under its own seeds and under seeds it was not made with.

Takes a few minutes; `--check-seeds 0` leaves out the second half.
"""

from __future__ import annotations

import argparse
from typing import Any

from _record import write_result

from groupnoise.reproduce.demo import Demo, demo_tasks, run_demo
from groupnoise.reproduce.report.tables import compare
from groupnoise.reproduce.run import summarise

OURS = "max_matching"
COMPARED = ("pairwise", "matching", "maximizing", "max_matching_paper", "supervised")
METRICS = {"mil": ["accuracy"], "pll": ["accuracy"], "rs": ["HIT@10", "NDCG@10"]}
N_SEEDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check-seeds", type=int, default=N_SEEDS, metavar="N")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    seeds = {
        "demo": list(range(N_SEEDS)),
        "check": list(range(N_SEEDS, N_SEEDS + arguments.check_seeds)),
    }
    payload: dict[str, Any] = {"seeds": seeds, "settings": describe_settings()}
    for name, group in seeds.items():
        if group:
            demo = run_demo(demo_tasks(), group, n_jobs=arguments.jobs)
            payload[name] = {
                "processor_seconds": round(sum(r.processor_seconds for r in demo.results), 1),
                "rows": summarise(demo.results),
                "leads": leads(demo),
            }
    print(write_result("demo", payload))


def describe_settings() -> dict[str, Any]:
    """Return the common parameters of the methods of a setting, and their objectives."""
    described: dict[str, Any] = {}
    for task in demo_tasks():
        estimator = task.make_estimator()
        described[task.setting] = {
            "estimator": type(estimator).__name__,
            "parameters": {name: str(value) for name, value in estimator.get_params().items()},
            "learning_rates": task.learning_rates,
            "objectives": {
                method.name: {
                    name: method.make().get_params()[name]
                    for name in ("selection", "weighting_strength")
                }
                for method in task.methods()
            },
        }
    return described


def leads(demo: Demo) -> list[dict[str, Any]]:
    """Return how far Max-Matching is ahead of each other method, trial by trial."""
    return [
        {"setting": setting, **vars(comparison)}
        for setting, metrics in METRICS.items()
        for metric in metrics
        for comparison in compare(
            [r for r in demo.results if r.setting == setting], OURS, COMPARED, metric
        )
    ]


if __name__ == "__main__":
    main()
