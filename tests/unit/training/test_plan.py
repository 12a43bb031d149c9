"""TrainingPlan: learning-rate paths and refused values."""

import pytest

from groupnoise.exceptions import ParameterError
from groupnoise.training.parameters import TrainingPlan


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("constant", [2.0, 2.0, 2.0]), ("linear", [2.0, 1.0, 0.0]), ("cosine", [2.0, 1.0, 0.0])],
)
def test_learning_rate_follows_its_schedule(schedule, expected):
    plan = TrainingPlan(learning_rate=2.0, schedule=schedule)
    assert [plan.rate_at(p) for p in (0.0, 0.5, 1.0)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_epochs": 0}, "max_epochs must be a whole number of at least 1; got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"learning_rate": 0.0}, "learning_rate must be a number greater than zero"),
        ({"weight_decay": -0.1}, "weight_decay must be a number zero or more"),
        ({"schedule": "step"}, "schedule must be one of 'constant', 'cosine', 'linear'"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_impossible_plans_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        TrainingPlan(**parameters)
