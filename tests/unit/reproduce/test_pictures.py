"""Pictures tell the truth about what was chosen."""

import numpy as np
import pytest

from groupnoise.reproduce.demo import demo_tasks


@pytest.fixture(params=["mil", "pll", "rs"])
def gallery(request, quick_demo):
    return quick_demo.galleries[request.param]


def test_six_groups_are_shown_and_then_only_mistakes(gallery):
    assert len(gallery.first) == 6
    assert not any(picture.is_right for picture in gallery.mistakes)


def test_a_bag_holds_one_digit_of_its_class_and_its_weights_sum_to_one(quick_demo):
    for bag in quick_demo.galleries["mil"].first:
        assert sum(bag.is_witness) == 1
        assert len(bag.images) == len(bag.shares) == len(bag.is_witness)
        assert sum(bag.shares) == pytest.approx(1, abs=1e-4)
        assert bag.is_right == (bag.chosen == bag.is_witness.index(True))


def test_candidate_labels_are_those_of_the_data(quick_demo):
    (task,) = demo_tasks(["pll"], quick=True)
    train = task.make_trial(0).train
    for row, picture in enumerate(quick_demo.galleries["pll"].first):
        labels = [train.class_names[label] for label in np.flatnonzero(train.candidates[row])]
        assert picture.labels == labels
        assert picture.labels[picture.truth] == str(train.truth[row])
        assert sum(picture.shares) == pytest.approx(1, abs=1e-4)


def test_a_stray_click_never_leads_on_and_every_history_shows_one(quick_demo):
    for history in quick_demo.galleries["rs"].first:
        assert any(click.is_stray for click in history.clicks)
        assert any(click.leads_on for click in history.clicks)
        assert not any(click.is_stray and click.leads_on for click in history.clicks)


def test_the_cause_of_a_click_lies_on_its_shelf(quick_demo):
    for history in quick_demo.galleries["rs"].first:
        causes = {click.shelf for click in history.clicks if click.leads_on}
        assert causes == {history.next_shelf}
