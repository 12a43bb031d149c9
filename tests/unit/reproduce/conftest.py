"""Results to arrange."""

import pytest

from groupnoise.reproduce.run import TrialResult


@pytest.fixture
def make_result():
    """Return results of one metric, to be arranged by reports."""

    def make(method, seed, value, *, dataset="digit bags", curve=(0.1, 0.2)):
        return TrialResult(
            *("mil", dataset, method, seed),
            metrics={"accuracy": value},
            validation=value,
            chosen_settings={"learning_rate": 0.1},
            curve=list(curve),
            seconds=1.0,
            processor_seconds=1.0,
        )

    return make
