"""A trial that was kept on a line of a result file is read as it was written."""

from pathlib import Path

import pytest

from groupnoise.reproduce.run import TrialResult

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def keeping(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import keep_reproduction

    return keep_reproduction


def trial(**changes):
    known = {
        "setting": "rs",
        "dataset": "toys epsilon=0.1",
        "method": "ours-mm",
        "seed": 21,
        "metrics": {"HIT@10": 0.5, "full HIT@10": 0.015625, "chosen right": -0.25},
        "validation": 0.25,
        "chosen_settings": {"hidden": [300], "temperature": [1.0, 0.3]},
        "curve": [],
        "seconds": 2.5,
        "processor_seconds": 2.5,
        "criterion": "validation",
        "n_fits": 4,
        "n_epochs": 240,
        "provenance": {"code": "0123456789ab", "ended": "2026-11-17T01:00:00+00:00"},
    }
    return TrialResult(**{**known, **changes})


@pytest.mark.parametrize("changes", [{}, {"n_epochs": 0}, {"provenance": {}}])
def test_a_line_says_all_that_is_needed_to_read_the_trial_again(keeping, changes):
    kept = trial(**changes)
    assert keeping._read_line("rs", keeping._line(kept)) == kept


def test_lines_of_before_epochs_and_code_were_kept_are_read_too(keeping):
    line = (
        "lost | cc | oracle | seed 20 | accuracy=0.7500 chosen right=0.9000 | validation=0.6786 "
        "| {'scaling': 'l2'} | 16 fits, 39.1 s"
    )
    read = keeping._read_line("pll", line)
    assert read.metrics == {"accuracy": 0.75, "chosen right": 0.9}
    assert (read.n_fits, read.n_epochs, read.processor_seconds) == (16, 0, 39.1)
    assert read.provenance == {}
