"""Bags of one patient are on one side wherever bags are held out."""

import numpy as np
import pytest

from groupnoise import MaxMatchingMILClassifier
from groupnoise.audit.find import _folds
from groupnoise.bags.search.held_out_bags import draw_folds
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
from groupnoise.io.hold_out import draw_held_out


def make_bags(n_patients=12, per_patient=3, seed=0):
    """Bags that look like their patient: who knows the patient knows the label."""
    generator = np.random.default_rng(seed)
    patients = np.repeat(np.arange(n_patients), per_patient)
    label = generator.permutation(n_patients)[patients] % 2
    looks = 3 * generator.normal(size=(n_patients, 5))[patients]
    objects = np.repeat(looks, 4, axis=0) + 0.1 * generator.normal(size=(4 * len(patients), 5))
    return Groups(objects, 4 * np.arange(len(patients) + 1)), label, patients


def is_apart(folds, patients):
    return all(len(set(folds[patients == patient])) == 1 for patient in set(patients.tolist()))


def test_folds_do_not_part_patients_and_differ_little_in_labels():
    _, label, patients = make_bags(20)
    labels = label[:, None] == np.arange(2)
    folds = draw_folds(labels, 4, np.random.default_rng(0), patients)
    assert is_apart(folds, patients)
    assert set(folds) == set(range(4))
    assert all(0.2 < label[folds == fold].mean() < 0.8 for fold in range(4))
    assert is_apart(_folds(label, 4, 0, patients), patients)
    held_out = draw_held_out(labels, 0.3, 0, clusters=patients)
    assert is_apart(np.isin(np.arange(len(label)), held_out), patients)


def test_the_folds_of_a_search_know_patients():
    bags, label, patients = make_bags()
    labels = label[:, None] == np.arange(2)
    search = BagSearch(bags, labels, False, np.random.default_rng(0), patients)
    assert is_apart(search.folds, patients)
    # One patient cannot be held out of itself.
    alone = BagSearch(bags, labels, False, np.random.default_rng(0), np.zeros(len(bags)))
    assert len(set(alone.folds)) == alone.n_folds


def test_a_plain_fit_takes_patients_and_is_not_fooled_by_them():
    bags, label, patients = make_bags(8)
    with pytest.warns(UserWarning, match="no better than by the frequencies"):
        # Within patients every bag would be recognised; across patients nothing can be learned.
        MaxMatchingMILClassifier(budget=5, random_state=0).fit(bags, label, patients=patients)
    with pytest.raises(DataError, match="patients of shape"):
        MaxMatchingMILClassifier().fit(bags, label, patients=patients[1:])
