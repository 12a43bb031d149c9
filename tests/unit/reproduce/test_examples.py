"""Recall examples: the same clicks for every method, with titles and kinds."""

from dataclasses import replace

import pytest

from groupnoise.clicks import make_shop, split_clicks
from groupnoise.clicks.baselines import CooccurrenceRecommender, PopularityRecommender
from groupnoise.exceptions import DataError
from groupnoise.reproduce.jobs import recall_examples
from groupnoise.reproduce.trials import ClickTrial


@pytest.fixture(scope="module")
def trial():
    clicks = make_shop(200, random_state=0)
    return ClickTrial("shop", 0, clicks, split_clicks(clicks.histories, "authors"))


def fitted(trial, model):
    trial.fit(model)
    return model


def test_every_method_answers_the_same_clicks_and_not_with_the_click_itself(trial):
    shown = []
    for model in (PopularityRecommender(), CooccurrenceRecommender()):
        _, examples = recall_examples(trial, fitted(trial, model), n_items=4, top=3)
        shown.append([example["clicked"] for example in examples])
        for example in examples:
            titles = [answer["title"] for answer in example["answers"]]
            assert len(titles) == 3
            assert example["clicked"] not in titles
    assert shown[0] == shown[1]
    assert len(set(shown[0])) == 4


def test_related_answers_are_counted(trial):
    metrics, _ = recall_examples(trial, fitted(trial, CooccurrenceRecommender()), n_items=2, top=5)
    popular, _ = recall_examples(trial, fitted(trial, PopularityRecommender()), n_items=2, top=5)
    assert popular["same kind@5"] < metrics["same kind@5"] <= 1


def test_data_without_titles_is_refused_in_a_sentence(trial):
    untitled = replace(trial, clicks=replace(trial.clicks, titles=None))
    with pytest.raises(DataError, match="no titles"):
        recall_examples(untitled, fitted(trial, PopularityRecommender()), n_items=2, top=5)
