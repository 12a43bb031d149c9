"""What a data set holds, and what is odd about it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import make_shop
from groupnoise.clicks.evaluation.history_split import split_histories
from groupnoise.clicks.evaluation.splits import MIN_PROTOCOL_CLICKS, ClickProtocol
from groupnoise.exceptions import MissingDataError
from groupnoise.io import BagDataset, ClickDataset, PartialLabelDataset, describe, load_dataset


def bags(**changes):
    dataset = BagDataset(
        name="two bags",
        bags=Groups(np.array([[1.0, 5.0], [2.0, 5.0], [1.0, 5.0]]), [0, 2, 3]),
        labels=np.array([[True, False, False], [False, True, False]]),
        class_names=["a", "b", "c"],
        instance_labels=np.array([0, -1, 0]),
    )
    return replace(dataset, **changes)


def test_bags_are_counted():
    facts = describe(bags()).facts
    assert facts["bags"] == 2
    assert facts["instances"] == 3
    assert facts["duplicate rows"] == 1
    assert facts["constant features"] == 1
    assert facts["instances of background or unknown class"] == 1
    assert facts["fraction of instances with a label of their bag"] == pytest.approx(1 / 3)
    assert facts["bag labels without a known witness"] == 1


def test_the_oddities_of_bags_are_named():
    assert tuple(describe(bags()).oddities) == (
        "1 row with the same features as an earlier row",
        "1 feature without variation: 1",
        "1 class without a bag: c",
        "1 bag label without a known witness",
        "1 instance of a true class that is no label of the bag",
    )


def test_bags_without_instance_labels_say_so():
    oddities = describe(bags(instance_labels=None)).oddities
    assert "no instance label is known, so single instances cannot be scored" in oddities


def test_bag_sizes_and_class_balance_are_drawn():
    sizes, balance, truth = describe(bags()).histograms
    assert (sizes.labels, sizes.counts) == (("1", "2"), (1, 1))
    assert (balance.labels, balance.counts) == (("a", "b", "c"), (1, 1, 0))
    assert truth.counts == (2, 0, 0)


def test_candidate_labels_are_counted_and_their_oddities_named():
    dataset = PartialLabelDataset(
        name="rows",
        features=np.array([[0.0], [1.0], [1.0]]),
        candidates=np.array([[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]], dtype=bool),
        class_names=["a", "b", "c", "d"],
        truth=np.array([0, 0, -1]),
    )
    description = describe(dataset)
    assert description.facts["candidates per row, mean"] == pytest.approx(5 / 3)
    assert description.facts["rows without truth"] == 1
    assert tuple(description.oddities) == (
        "1 row with the same features as an earlier row",
        "2 classes in no candidate set: c, d",
        "1 row without a true label",
        "1 row with a true label outside the candidates",
        "3 classes true of no row: b, c, d",
    )
    assert description.histograms[0].counts == (1, 2)


def test_clicks_are_counted_and_notes_kept():
    dataset = ClickDataset(
        name="clicks",
        histories=Groups.from_lists([[0, 0, 1], [1]]),
        item_ids=np.array(["x", "y", "z"]),
        user_ids=np.array([1, 2]),
        titles=["a title", "another", " "],
        notes={"core_users_dropped": 3, "follows": np.zeros(4)},
    )
    description = describe(dataset)
    assert description.facts["clicks on an item the user clicked before"] == 1
    assert description.facts["core users dropped"] == 3
    assert "follows" not in description.facts
    assert tuple(description.oddities) == (
        "1 user with a single click, too few for any group",
        "1 item without a click",
        "1 item without a title",
    )


@pytest.mark.parametrize("protocol", MIN_PROTOCOL_CLICKS)
def test_users_never_asked_are_those_that_the_protocol_of_evaluate_leaves_out(protocol):
    shop = make_shop(300, 60, length=(1, 30), random_state=0)
    facts = describe(shop).facts
    (n_short,) = (value for name, value in facts.items() if f"--protocol {protocol} " in name)
    counts = split_histories(shop, protocol).counts
    assert n_short == counts["users"] - counts["users_asked"]


def test_every_protocol_that_a_description_names_is_one_of_evaluate():
    named = [name for name in describe(make_shop(30, 20, random_state=0)).facts if "--prot" in name]
    assert named
    for name in named:
        ClickProtocol.parse(name.split("--protocol ")[1].split()[0])


def test_features_of_very_different_spread_are_pointed_out():
    objects = np.column_stack([np.arange(3.0), 1e4 * np.arange(3)])
    dataset = bags(bags=Groups(objects, [0, 2, 3]))
    assert any("hundredfold" in oddity for oddity in describe(dataset).oddities)


@pytest.mark.parametrize("make", [load_digit_bags, load_digit_candidates, make_shop])
def test_a_description_is_ready_for_json(make):
    plain = describe(make(random_state=0)).as_dict()
    assert json.loads(json.dumps(plain))["name"] == plain["name"]


def test_hja_lacks_the_published_number_of_witnesses(data_directory):
    try:
        dataset = load_dataset("hja-birdsong", data_dir=data_directory)
    except MissingDataError as error:
        pytest.skip(str(error))
    assert describe(dataset).facts["bag labels without a known witness"] == 67
