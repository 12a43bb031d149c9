"""Votes that come back to their own row by way of others make answers too sure of themselves."""

import numpy as np
from sklearn.datasets import make_classification

from groupnoise.votes import Votes
from groupnoise.votes.cross_fit import CrossFit
from groupnoise.votes.inference import infer_labels


def nearest_classifier(rows, named, weights):
    """A classifier that hears nobody but the nearest row: what leaks would be seen at once."""

    class Nearest:
        def predict_proba(self, held):
            distances = ((held[:, None, :] - rows[None]) ** 2).sum(axis=2)
            said = weights[distances.argmin(axis=1)] + 3.0
            return said / said.sum(axis=1, keepdims=True)

    return Nearest()


def test_what_a_row_is_told_does_not_change_with_its_own_votes():
    generator = np.random.default_rng(0)
    points = np.repeat(generator.normal(size=(60, 3)), 2, axis=0)  # everybody has a twin
    points += 1e-6 * generator.normal(size=points.shape)
    named = np.ones((120, 2), dtype=bool)
    belief = np.where(points[:, :1] < 0, [0.9, 0.1], [0.1, 0.9])
    nearest = np.argsort(((points[:, None] - points[None]) ** 2).sum(axis=2), axis=1)[:, 1:4]
    milder = np.where(belief > 0.5, 0.6, 0.4)
    for row in (0, 1, 50):
        told = []
        for own in (belief[row], milder[row]):
            changed = belief.copy()
            changed[row] = own
            likelihood = np.log(changed)

            def fit_annotators(prior, likelihood=likelihood, changed=changed):
                return likelihood, changed

            told.append(
                CrossFit(named, points, [nearest_classifier]).nested(
                    changed, likelihood, nearest, np.ones(120, dtype=bool), fit_annotators
                )
            )
        twin = row + 1 if row % 2 == 0 else row - 1
        np.testing.assert_allclose(told[0][row], told[1][row], rtol=1e-9)
        assert abs(np.log(told[0][twin]) - np.log(told[1][twin])).max() > 0.01  # others hear it


def test_votes_beside_weak_features_are_hardly_surer_than_right():
    generator = np.random.default_rng(1)
    points, truth = make_classification(
        240, n_features=12, n_informative=6, n_classes=6, n_clusters_per_class=2, random_state=1
    )
    entries = []
    for row, label in enumerate(truth):
        for who in generator.choice(4, 1 + (row % 4 == 0), replace=False):
            is_right = generator.random() < 0.62
            said = label if is_right else (label + generator.integers(1, 6)) % 6
            entries.append((row, f"a{who}", str("uvwxyz"[said]), None))
    votes = Votes.from_entries(entries, 240)
    shown = []
    belief = infer_labels(votes, points, on_progress=shown.append)
    sure, right = belief.probabilities.max(axis=1), belief.probabilities.argmax(axis=1)
    truth = np.array([votes.class_names.index("uvwxyz"[label]) for label in truth])
    assert sure.mean() - (right == truth).mean() < 0.06  # 0.13 where votes come back
    assert shown[-1] == {"stage": "training", "done": 50, "total": 50}


def test_two_folds_at_a_time_are_left_out_of_four_or_more():
    assert [
        CrossFit(None, None, [None], n_folds).n_nested_fits for n_folds in (2, 3, 4, 5, 10)
    ] == [0, 0, 10, 15, 15]
