"""Filters, lists, variety and interests, each held to a plain loop or an answer plain to see."""

import json

import numpy as np
import pytest

from groupnoise.exceptions import DataError, ParameterError
from groupnoise.recall import RecallOptions, open_artifact, recall_file
from groupnoise.recall.lists import MAX_LIST_BYTES, NamedLists, item_list, read_ids, read_item_list
from groupnoise.recall.options import rerank
from serving_support import VECTORS, write_neighbour_shop, write_shop

LABELS = [
    ["kitchen", "food", "brand=Acme"],
    ["kitchen", "brand=Bolt", "colour=red"],
    ["kitchen", "brand=Acme", "colour=blue"],
    ["tools", "brand=Bolt"],
    ["tools", "brand=Acme", "colour=red"],
    ["tools", "brand=Core", "brand=Bolt"],
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return open_artifact(write_shop(tmp_path_factory.mktemp("labelled"), categories=LABELS))


def recalled(model, history, **options):
    answer = model.recall([history], RecallOptions(**{"top": 6, "exclude_seen": False, **options}))
    return model.items.ids_of(answer.row(0)[0])


@pytest.mark.parametrize(
    ("asked", "passes"),
    [
        ({"brand": "Acme"}, {"tea", "spoon", "nail"}),
        ({"brand": ["Acme", "Core"]}, {"tea", "spoon", "nail", "saw"}),
        ({"brand": "Bolt", "category": "kitchen"}, {"cup"}),
        ({"not": {"brand": "Bolt"}}, {"tea", "spoon", "nail"}),
        ({"or": [{"category": "food"}, {"colour": "red"}]}, {"tea", "cup", "nail"}),
        ({"and": [{"category": "tools"}, {"not": {"colour": "red"}}]}, {"hammer", "saw"}),
        ({"not": {"or": [{"category": "tools"}, {"brand": "Acme"}]}}, {"cup"}),
    ],
)
def test_a_filter_leaves_what_it_says(shop, asked, passes):
    assert set(recalled(shop, ["tea"], filter=asked)) == passes
    assert set(recalled(shop, [], filter=asked)) == passes


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"size": "large"}, "no attribute is called 'size'; there are brand, category"),
        ({"brnd": "Acme"}, r"no attribute is called 'brnd' \(did you mean 'brand'"),
        ({"brand": "Nobody"}, "no brand is called 'Nobody'"),
    ],
)
def test_a_filter_over_what_is_not_there_is_refused(shop, asked, sentence):
    with pytest.raises(DataError, match=sentence):
        recalled(shop, ["tea"], filter=asked)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({}, "filter must be an object such as"),
        ([1], "filter must be an object such as"),
        ({"and": {"brand": "Acme"}}, "'and' needs a list of filters"),
        ({"brand": 5}, "'brand' needs a text or a list of texts"),
        ({"brand": ["x"] * 10_001}, "at most 10000 are looked up"),
        (json.loads('{"not": ' * 40 + '{"brand": "Acme"}' + "}" * 40), "nested deeper than 16"),
    ],
)
def test_what_is_no_filter_is_refused(asked, sentence):
    with pytest.raises(ParameterError, match=sentence):
        RecallOptions(filter=asked)


def test_lists_allow_and_deny_and_unknown_ids_are_passed_over(shop):
    stock = item_list("in_stock", ["cup", "saw", "spoon", "gone"])
    blocked = item_list("blocked", ["spoon"])
    assert set(recalled(shop, ["tea"], allow_lists=(stock,))) == {"cup", "saw", "spoon"}
    both = recalled(shop, ["tea"], allow_lists=(stock,), deny_lists=(blocked,))
    assert both == ["cup", "saw"]
    assert recalled(shop, ["tea"], allow_lists=(item_list("none", []),)) == []


def test_a_list_in_a_folder_is_replaced_by_its_file(tmp_path, shop):
    lists, other = NamedLists(tmp_path), NamedLists(tmp_path)
    lists.put(item_list("stock", ["tea", "cup"]))
    assert other.get("stock").ids.tolist() == ["tea", "cup"]
    (tmp_path / "new").write_text("saw\n\n nail \n")
    (tmp_path / "new").rename(tmp_path / "stock.txt")
    assert lists.get("stock").ids.tolist() == other.get("stock").ids.tolist() == ["saw", "nail"]
    (tmp_path / "stock.txt").write_bytes(b"\xff\xfe broken")
    assert lists.get("stock").ids.tolist() == ["saw", "nail"]
    lists.delete("stock")
    assert other.get("stock") is None
    assert other.names() == []


def test_a_byte_order_mark_is_no_part_of_the_first_id(tmp_path):
    (tmp_path / "blocked.txt").write_bytes(b"\xef\xbb\xbftea\r\ncup\r\n")
    assert read_item_list(tmp_path / "blocked.txt").ids.tolist() == ["tea", "cup"]
    assert read_ids(tmp_path / "blocked.txt") == ["tea", "cup"]


def test_bad_lists_are_refused(tmp_path):
    with pytest.raises(DataError, match="letters, digits"):
        item_list("../etc", ["tea"])
    with (tmp_path / "large.txt").open("wb") as stream:
        stream.truncate(MAX_LIST_BYTES + 1)
    with pytest.raises(DataError, match="larger than the 67108864 bytes"):
        read_item_list(tmp_path / "large.txt")
    with pytest.raises(DataError, match="cannot be read as lines of item ids"):
        read_item_list(tmp_path / "missing.txt")
    with pytest.raises(DataError, match="is no folder"):
        NamedLists(tmp_path / "nowhere")


def test_an_id_with_a_line_break_is_refused_where_lists_are_files(tmp_path):
    lists = NamedLists(tmp_path)
    lists.put(item_list("stock", ["tea"]))
    with pytest.raises(DataError, match=r"'tea\\ncup' has a line break"):
        lists.put(item_list("stock", ["saw", "tea\ncup"]))
    assert lists.get("stock").ids.tolist() == ["tea"]
    NamedLists().put(item_list("stock", ["tea\ncup"]))


def slow_mmr(scores, similarity, diversity, n):
    """Maximal marginal relevance as a plain loop."""
    low, high = min(scores), max(scores)
    taken = []
    while len(taken) < min(n, len(scores)):
        best, best_worth = None, None
        for item in range(len(scores)):
            if item in taken:
                continue
            relevance = (scores[item] - low) / (high - low)
            nearest = max([0.0, *(similarity[item][other] for other in taken)])
            worth = (1 - diversity) * relevance - diversity * nearest
            if best is None or worth > best_worth:
                best, best_worth = item, worth
        taken.append(best)
    return taken


@pytest.mark.parametrize("diversity", [0.0, 0.3, 0.7, 1.0])
def test_variety_is_maximal_marginal_relevance(diversity):
    generator = np.random.default_rng(3)
    scores = np.sort(generator.standard_normal(30))[::-1]
    vectors = generator.standard_normal((30, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = vectors @ vectors.T
    assert rerank(scores, similarity, [], diversity=diversity, n=12) == slow_mmr(
        scores.tolist(), similarity.tolist(), diversity, 12
    )


def test_diversity_brings_the_other_kind_forward(shop):
    plain = recalled(shop, ["tea"], top=3)
    assert plain == ["tea", "cup", "spoon"]
    assert recalled(shop, ["tea"], top=3, diversity=0.0) == plain
    mixed = recalled(shop, ["tea"], top=3, diversity=0.8)
    assert mixed[0] == "tea"
    assert {"hammer", "nail", "saw"} & set(mixed)


def test_diversity_needs_vectors(tmp_path):
    model = open_artifact(write_neighbour_shop(tmp_path))
    with pytest.raises(DataError, match="diversity needs a model of vectors"):
        model.recall([["tea"]], RecallOptions(diversity=0.5))


def test_caps_hold_for_every_attribute(shop):
    assert recalled(shop, ["tea"], max_per={"brand": 1}) == ["tea", "cup"]
    both = recalled(shop, ["tea"], max_per={"brand": 2}, per_category=1)
    assert both == ["tea", "saw"]
    with pytest.raises(DataError, match="no attribute is called 'size'"):
        recalled(shop, ["tea"], max_per={"size": 1})


def test_low_scores_are_left_out_but_popularity_is_no_score(shop):
    answer = shop.recall([["tea"], []], RecallOptions(top=6, exclude_seen=False))
    bound = float(answer.scores[0, 2])
    cut = shop.recall([["tea"], []], RecallOptions(top=6, exclude_seen=False, min_score=bound))
    assert (cut.positions[0] >= 0).sum() == 3
    np.testing.assert_array_equal(cut.positions[1], answer.positions[1])


def test_interests_are_answered_apart_and_name_their_click(shop):
    options = RecallOptions(top=2, interests=2)
    answer = shop.recall([["tea", "cup", "hammer"], ["tea"], []], options)
    ids = [shop.items.ids_of(answer.row(row)[0]) for row in range(3)]
    kinds = ["kitchen" if VECTORS[position, 0] > 0 else "tools" for position in answer.row(0)[0]]
    clicks = shop.items.ids_of(answer.led_by[0][answer.positions[0] >= 0])
    assert {"tea", "cup", "hammer"}.isdisjoint(ids[0])
    led = dict(zip(kinds, clicks, strict=True))
    assert led["tools"] == "hammer"
    assert led["kitchen"] in {"tea", "cup"}
    assert ids[1] == ["cup", "spoon"]
    assert len(ids[2]) == 2
    assert (answer.led_by[2] == -1).all()


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_file_of_answers_names_the_click_of_each_interest(tmp_path, shop, ending):
    log = tmp_path / "clicks.csv"
    log.write_text("user,item,time\nann,tea,1\nann,hammer,2\n")
    output = tmp_path / f"out{ending}"
    recall_file(shop, log, output, RecallOptions(top=1, interests=2))
    if ending == ".parquet":
        row = pytest.importorskip("pyarrow.parquet").read_table(output).to_pylist()[0]
        assert sorted(row["clicks"]) == ["hammer", "tea"]
    elif ending == ".jsonl":
        assert sorted(json.loads(output.read_text())["clicks"]) == ["hammer", "tea"]
    else:
        lines = output.read_text().splitlines()
        assert lines[0].endswith(",source,click")
        assert {line.rsplit(",", 1)[1] for line in lines[1:]} == {"hammer", "tea"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"diversity": 1.5}, "diversity"),
        ({"interests": 21}, "interests must be at most 20"),
        ({"interests": 0}, "interests"),
        ({"min_score": float("nan")}, "min_score must be a number"),
        ({"max_per": {"brand": 0}}, "max_per brand"),
    ],
)
def test_what_cannot_be_asked_is_refused(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        RecallOptions(**options)
