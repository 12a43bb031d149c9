"""PL-kNN, PALOC and SURE, which have no per-row loss, against plain loops and small cases."""

import itertools

import numpy as np
import pytest
from sklearn.svm import SVC

from groupnoise.candidates.baselines import (
    CLPLClassifier,
    PALOCClassifier,
    PLKNNClassifier,
    SUREClassifier,
)
from groupnoise.candidates.baselines.kernels import (
    KernelMachines,
    count_votes,
    resolve_by_votes,
    sharpened,
)
from groupnoise.candidates.baselines.linear import clpl_loss


@pytest.fixture
def data():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(30, 3))
    candidates = generator.random((30, 4)) < 0.4
    candidates[np.arange(30), generator.integers(0, 4, size=30)] = True
    return rows, candidates


def test_plknn_votes_equal_the_loops(data):
    rows, candidates = data
    model = PLKNNClassifier(n_neighbors=4).fit(rows, candidates)
    query = rows + 0.1
    for row, found in zip(query, model._class_scores(query), strict=True):
        distances = [float(np.linalg.norm(row - other)) for other in rows]
        nearest = sorted(range(len(rows)), key=distances.__getitem__)[:4]
        total = sum(distances[i] for i in nearest)
        votes = np.zeros(4)
        for i in nearest:
            votes += (1 - distances[i] / total) * candidates[i]
        np.testing.assert_allclose(found, votes)


def test_plknn_neighbours_at_distance_zero_count_equally():
    model = PLKNNClassifier(n_neighbors=3).fit([[0.0], [0.0], [0.0], [9.0]], [{0}, {1}, {1}, {0}])
    np.testing.assert_allclose(model.predict_proba([[0.0]]), [[1 / 3, 2 / 3]])


def test_plknn_follows_its_only_neighbour():
    model = PLKNNClassifier(n_neighbors=1).fit([[0.0], [9.0]], [{"a"}, {"b"}])
    assert model.predict([[1.0], [8.0]]).tolist() == ["a", "b"]


def test_shared_kernel_machines_equal_separate_ones(data):
    rows, candidates = data
    takes_part = candidates[:, 0] != candidates[:, 1]
    machines, outputs = KernelMachines.fit(
        rows, [(takes_part, candidates[:, 0])], penalty=2.0, gamma=0.3
    )
    separate = SVC(C=2.0, gamma=0.3).fit(rows[takes_part], candidates[takes_part, 0])
    np.testing.assert_allclose(outputs[:, 0], separate.decision_function(rows), atol=1e-9)
    np.testing.assert_allclose(machines.decide(rows), outputs)


@pytest.mark.parametrize(
    ("takes_part", "is_positive", "expected"),
    [
        ([True, True], [True, True], 1.0),
        ([True, True], [False, False], -1.0),
        ([False, False], [True, False], 0.0),
    ],
    ids=["all positive", "all negative", "no row"],
)
def test_a_one_sided_problem_gets_a_constant_answer(takes_part, is_positive, expected):
    problem = (np.array(takes_part), np.array(is_positive))
    _, outputs = KernelMachines.fit(np.eye(2), [problem], penalty=1.0, gamma=None)
    np.testing.assert_array_equal(outputs, np.full((2, 1), expected))


def test_paloc_votes_equal_the_loops():
    outputs = np.random.default_rng(0).normal(size=(6, 6))
    expected = np.zeros((6, 4))
    for row in range(6):
        for column, (j, k) in enumerate(itertools.combinations(range(4), 2)):
            expected[row, j if outputs[row, column] > 0 else k] += 1
    np.testing.assert_array_equal(count_votes(outputs, 4), expected)


def test_paloc_resolves_a_row_only_to_one_of_its_candidates():
    votes = np.array([[3.0, 1.0, 0.0], [3.0, 1.0, 0.0]])
    candidates = np.array([[True, True, False], [False, True, True]])
    expected = [[True, False, False], [False, True, True]]
    np.testing.assert_array_equal(resolve_by_votes(votes, candidates), expected)


def test_paloc_scores_add_votes_and_the_machines_that_say_yes(data):
    rows, candidates = data
    with_rest = PALOCClassifier(rest_weight=10.0).fit(rows, candidates)._class_scores(rows)
    votes_only = PALOCClassifier(rest_weight=0.0).fit(rows, candidates)._class_scores(rows)
    assert set(np.unique(with_rest - votes_only)) <= {0.0, 10.0}
    np.testing.assert_array_equal(votes_only.sum(axis=1), np.full(len(rows), 6.0))


@pytest.mark.parametrize("sharpness", [0.0, 0.3, 1.0])
def test_sure_confidences_minimise_their_objective_on_a_grid(sharpness):
    outputs = np.random.default_rng(0).normal(scale=0.5, size=(5, 4))
    candidates = np.tile([True, True, False, True], (5, 1))
    found = sharpened(outputs, candidates, sharpness)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found >= 0).all()
    assert (found[:, 2] == 0).all()
    share = np.linspace(0, 1, 101)
    first, rest = (axis.ravel() for axis in np.meshgrid(share, share))
    grid = np.stack([first, (1 - first) * rest, 0 * first, (1 - first) * (1 - rest)], axis=1)

    def objective(points, row):
        return ((points - row)[:, candidates[0]] ** 2).sum(axis=1) - sharpness * points.max(axis=1)

    for ours, row in zip(found, outputs, strict=True):
        assert objective(ours[None], row)[0] <= objective(grid, row).min() + 1e-9


def test_sure_regression_meets_its_normal_equations(data):
    rows, candidates = data
    model = SUREClassifier(max_iterations=1, regularization=0.2).fit(rows, candidates)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    kernel = np.exp(-((distances / distances.mean()) ** 2) / 2)
    target = candidates / candidates.sum(axis=1, keepdims=True)
    residual = kernel @ model.dual_coef_ + model.intercept_ - target
    # Stationary in the dual weights and in the constant.
    np.testing.assert_allclose(residual + 0.2 * model.dual_coef_, 0.0, atol=1e-9)
    np.testing.assert_allclose(residual.sum(axis=0), 0.0, atol=1e-9)


def test_clpl_reaches_a_point_where_no_small_step_helps(data):
    rows, candidates = data
    model = CLPLClassifier(regularization=0.1, max_iterations=1000).fit(rows, candidates)

    def objective(coef, intercept):
        loss, _ = clpl_loss(rows @ coef.T + intercept, candidates, "squared_hinge")
        return loss.mean() + 0.05 * np.sum(coef**2)

    best = objective(model.coef_, model.intercept_)
    generator = np.random.default_rng(1)
    for _ in range(50):
        coef = model.coef_ + generator.normal(scale=0.01, size=model.coef_.shape)
        intercept = model.intercept_ + generator.normal(scale=0.01, size=model.intercept_.shape)
        assert best <= objective(coef, intercept) + 1e-9
