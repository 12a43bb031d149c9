"""Keep the finished trials of `groupnoise reproduce` as a result file.

Run: python benchmarks/keep_reproduction.py NAME RUN_FOLDER RECIPE.toml "the command that ran it"
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from _record import write_result

from groupnoise.experiments import TrialResult, summarise


def main(name: str, folder: str, recipe: str, command: str) -> None:
    lines = (Path(folder) / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    results = [TrialResult(**{k: v for k, v in r.items() if k != "key"}) for r in records]
    payload = {
        "reproduced_with": command,
        "recipe": Path(recipe).read_text(encoding="utf-8").splitlines(),
        "seeds": sorted({result.seed for result in results}),
        "rows": summarise(results),
        "trials": [
            {
                "dataset": result.dataset,
                "method": result.method,
                "seed": result.seed,
                "metrics": result.metrics,
                "validation": result.validation,
                "chosen_settings": result.chosen_settings,
                "processor_seconds": result.processor_seconds,
            }
            for result in results
        ],
    }
    print(write_result(name, payload))


if __name__ == "__main__":
    main(*sys.argv[1:])
