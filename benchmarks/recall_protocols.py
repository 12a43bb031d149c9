"""Record the trials of `groupnoise reproduce recall` in a result file.

    groupnoise reproduce recall --protocol leave_one_out,time:0.9 --output runs
    python benchmarks/recall_protocols.py runs/recall/trials.jsonl

Rows are added to those kept already and replace older ones of the same trial.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _record import recorded, replace_row, write_result

from groupnoise.reproduce.files import read_kept_trials

NAME = "recall_protocols"
KEY = ("dataset", "protocol", "method", "seed")


def main() -> None:
    """Read the trials and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", nargs="+", type=Path, help="Files trials.jsonl of runs.")
    rows = recorded(NAME)
    for file in parser.parse_args().trials:
        for row in read_kept_trials(file):
            rows = replace_row(rows, row, KEY) if row["failed"] is None else rows
    command = "groupnoise reproduce recall --protocol PROTOCOLS --datasets LOGS --methods METHODS"
    note = "every method at its defaults; times are processor seconds on a shared machine"
    rows.sort(key=lambda row: [str(row[name]) for name in KEY])
    print(write_result(NAME, {"command": command, "note": note, "rows": rows}))


if __name__ == "__main__":
    main()
