"""The demonstration: fair by construction, repeatable, complete, and shown as it is."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from groupnoise.exceptions import ParameterError
from groupnoise.reproduce.demo import demo_tasks, run_demo
from groupnoise.reproduce.provenance import RunFacts
from groupnoise.reproduce.report.pages import demo_page
from groupnoise.reproduce.run import summarise

METHODS = {
    *("pairwise", "matching", "maximizing", "max_matching", "max_matching_paper", "supervised"),
}


@pytest.fixture(scope="module")
def quick_demo():
    """The quick demonstration under two seeds."""
    return run_demo(demo_tasks(quick=True), [0, 1], n_jobs=1)


@pytest.mark.parametrize("task", demo_tasks(), ids=lambda task: task.setting)
def test_methods_differ_in_their_objective_alone(task):
    estimators = [method.make().get_params() for method in task.methods()]
    varying = {name for name in estimators[0] if len({str(each[name]) for each in estimators}) > 1}
    assert varying == {"selection", "weighting_strength"}
    assert len({str(method.grid) for method in task.methods()}) == 1


def test_only_the_upper_bound_is_shown_the_truth():
    for task in demo_tasks():
        assert [m.name for m in task.methods() if m.supervised] == ["supervised"]


def test_every_method_has_every_metric_of_its_setting(quick_demo):
    metrics = {}
    for row in summarise(quick_demo.results):
        assert row["trials"] == 2
        metrics.setdefault((row["setting"], row["metric"]), set()).add(row["method"])
    assert set(metrics) == {
        *(("mil", "accuracy"), ("mil", "chosen right")),
        *(("pll", "accuracy"), ("pll", "chosen right")),
        *(("rs", "HIT@10"), ("rs", "NDCG@10"), ("rs", "chosen right")),
    }
    assert all(methods == METHODS for methods in metrics.values())


def test_one_seed_gives_one_result(quick_demo):
    again = run_demo(demo_tasks(["mil"], quick=True), [1], n_jobs=1)
    before = [r for r in quick_demo.results if r.setting == "mil" and r.seed == 1]
    assert [(r.method, r.metrics, r.curve) for r in again.results] == [
        (r.method, r.metrics, r.curve) for r in before
    ]


def test_an_unknown_setting_is_refused_with_those_there_are():
    with pytest.raises(ParameterError, match="'mil', 'pll', 'rs'; got 'bags'"):
        demo_tasks(["bags"])


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


class OpenTags(HTMLParser):
    """Complains about a tag that closes another one."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Let an element of a drawing close itself."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(quick_demo):
    return demo_page(quick_demo, RunFacts("groupnoise demo <quick>", (0, 1), 1.0), quick=True)


def test_the_page_is_well_formed(page):
    tags = OpenTags()
    tags.feed(page)
    assert tags.open == []


def test_the_page_needs_nothing_from_elsewhere(page):
    assert not re.search(r"<(script|link|img|iframe|object)\b|https?:|url\(|@import", page)


def test_the_page_says_how_to_repeat_it(page):
    assert "groupnoise demo &lt;quick&gt;" in page
    assert "torch" in page
    assert "0, 1" in page
    assert "0.03 (2×)" in page


def test_right_and_wrong_differ_in_more_than_colour(page):
    assert "✓ right" in page
    assert "✗ wrong" in page
    assert "outline-style: dashed" in page
