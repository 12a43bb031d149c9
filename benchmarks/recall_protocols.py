"""Keep what `groupnoise reproduce recall` found as a result file.

    groupnoise reproduce recall --protocol leave_one_out,time:0.9 --output runs
    python benchmarks/recall_protocols.py runs/recall/trials.jsonl

Rows are added to those kept already and replace older ones of the same trial.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from _record import RESULTS, write_result

NAME = "recall_protocols"
KEY = ("dataset", "protocol", "method", "seed")


def main() -> None:
    """Read the trials and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", nargs="+", type=Path, help="Files trials.jsonl of runs.")
    path = RESULTS / f"{NAME}.json"
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    if path.is_file():
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            rows[tuple(row[name] for name in KEY)] = row
    for file in parser.parse_args().trials:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["failed"] is None:
                rows[tuple(row[name] for name in KEY)] = row
    command = "groupnoise reproduce recall --protocol PROTOCOLS --datasets LOGS --methods METHODS"
    note = "every method at its defaults; times are processor seconds on a shared machine"
    ordered = sorted(rows.values(), key=lambda row: [str(row[name]) for name in KEY])
    print(write_result(NAME, {"command": command, "note": note, "rows": ordered}))


if __name__ == "__main__":
    main()
