import numpy as np
import pytest

from groupnoise.clicks.scoring import ScoringRule
from groupnoise.exceptions import DataError, ParameterError, UnknownTargetError
from groupnoise.recall import RecallOptions, open_artifact
from groupnoise.recall.recalled import noise_flags
from serving_support import write_neighbour_shop, write_shop


def recalled_ids(model, history, **options):
    recalled = model.recall([history], RecallOptions(**options))
    return model.items.ids_of(recalled.row(0)[0])


def test_a_history_leads_to_its_own_kind(shop):
    assert recalled_ids(shop, ["tea"], top=2) == ["cup", "spoon"]
    assert recalled_ids(shop, ["hammer"], top=2) == ["nail", "saw"]


def test_mm_looks_at_the_last_click_alone(shop):
    assert recalled_ids(shop, ["tea", "hammer"], top=2, scope="last") == ["nail", "saw"]


def test_seen_items_are_left_out_unless_asked_for(shop):
    assert "tea" not in recalled_ids(shop, ["tea", "cup"], top=6)
    assert recalled_ids(shop, ["tea"], top=1, exclude_seen=False) == ["tea"]


def test_an_empty_history_gets_what_is_popular(shop):
    recalled = shop.recall([[]], RecallOptions(top=3))
    assert shop.items.ids_of(recalled.positions[0]) == ["cup", "hammer", "tea"]
    assert recalled.from_popularity.tolist() == [True]
    assert recalled.scores[0].tolist() == [9, 7, 5]


def test_unknown_items_are_reported_and_passed_over(shop):
    recalled = shop.recall([["x", "tea", 7], ["y"]], RecallOptions(top=2))
    assert recalled.unknown == [["x", 7], ["y"]]
    assert recalled.from_popularity.tolist() == [False, True]
    assert shop.items.ids_of(recalled.positions[0]) == ["cup", "spoon"]


def test_allow_deny_and_category_filters(shop):
    assert recalled_ids(shop, ["tea"], allow=("saw", "spoon", "x")) == ["spoon", "saw"]
    assert "cup" not in recalled_ids(shop, ["tea"], top=6, deny=("cup",))
    assert set(recalled_ids(shop, ["tea"], categories=("tools",))) == {"hammer", "nail", "saw"}
    assert recalled_ids(shop, ["tea"], categories=("tools",), deny=("nail",), allow=("nail",)) == []
    assert recalled_ids(shop, [], top=1, categories=("tools",)) == ["hammer"]


def test_a_cap_per_category_fills_up_from_the_next_category(shop):
    capped = recalled_ids(shop, ["tea"], top=2, per_category=1)
    assert [shop.items.category_of(shop.items.positions_of([item])[0]) for item in capped] == [
        "kitchen",
        "tools",
    ]


def test_more_items_than_there_are_leave_gaps(shop):
    recalled = shop.recall([["tea"]], RecallOptions(top=50))
    assert recalled.positions.shape == (1, 50)
    assert len(recalled.row(0)[0]) == 5


def test_histories_answered_together_are_answered_as_alone(shop):
    histories = [["tea"], [], ["hammer", "tea", "nail"], ["x"], ["tea", "cup"]]
    together = shop.recall(histories)
    for number, history in enumerate(histories):
        alone = shop.recall([history])
        np.testing.assert_array_equal(together.positions[number], alone.positions[0])
        np.testing.assert_allclose(together.scores[number], alone.scores[0], rtol=1e-5)


def test_similar_items_leave_out_the_item_itself(shop):
    similar = shop.similar("tea", top=2)
    assert shop.items.ids_of(similar.positions[0]) == ["cup", "spoon"]
    with pytest.raises(UnknownTargetError, match="'x'"):
        shop.similar("x")


def test_reasons_name_the_matching_click_and_the_noise(shop):
    history = ["tea", "hammer", "cup"]
    positions = shop.items.positions_of(["spoon"])
    reasons = shop.explain(history, positions)
    assert [click.is_noise for click in reasons.clicks] == [False, True, False]
    np.testing.assert_allclose(reasons.shares.sum(axis=0), 1.0, rtol=1e-6)
    click, share = reasons.matched(0)
    assert click.item in ("tea", "cup")
    assert share > 0.4


def test_reasons_of_mm_point_at_the_last_click(shop):
    reasons = shop.explain(["tea", "cup"], shop.items.positions_of(["spoon"]), scope="last")
    assert reasons.shares[:, 0].tolist() == [0, 1]


def test_an_unknown_history_has_no_reasons(shop):
    reasons = shop.explain(["x"], np.array([0]))
    assert reasons.clicks == []
    assert reasons.matched(0) is None


def test_clicks_older_than_the_window_have_no_weight(tmp_path):
    model = open_artifact(write_shop(tmp_path, rule=ScoringRule(window_size=2)))
    reasons = model.explain(["hammer", "tea", "cup"], np.array([2]))
    assert [click.weight is None for click in reasons.clicks] == [True, False, False]
    assert reasons.shares[0, 0] == 0
    np.testing.assert_array_equal(
        model.recall([["hammer", "tea", "cup"]], RecallOptions(top=1)).positions,
        model.recall([["tea", "cup"]], RecallOptions(top=1)).positions,
    )


def test_a_model_that_adds_evidence_weighs_clicks_by_what_they_brought(tmp_path):
    rule = ScoringRule(
        window_size=2, normalization="history", block_widths=(2,),
        position_weights=((1.0, 0.5),), exponents=(0.5,),
    )  # fmt: skip
    model = open_artifact(write_shop(tmp_path, rule=rule))
    reasons = model.explain(["hammer", "tea", "cup"], np.array([1, 2]))
    assert reasons.clicks[0].weight is None  # too old to be looked at
    weights = [click.weight for click in reasons.clicks[1:]]
    np.testing.assert_allclose(weights, reasons.shares[1:].mean(axis=1))
    assert sum(weights) == pytest.approx(1.0)
    assert [click.is_noise for click in reasons.clicks] == [None] * 3


@pytest.mark.parametrize("kind", ["log-normalized", "evidence", "neighbours"])
def test_with_interests_each_item_is_explained_by_the_click_that_scored_it(tmp_path, kind):
    if kind == "neighbours":
        model = open_artifact(write_neighbour_shop(tmp_path))
    elif kind == "evidence":
        rule = ScoringRule(
            window_size=2, normalization="history", block_widths=(2,),
            position_weights=((1.0, 0.5),), exponents=(0.5,),
        )  # fmt: skip
        model = open_artifact(write_shop(tmp_path, rule=rule))
    else:
        model = open_artifact(write_shop(tmp_path))
    history = ["hammer", "tea", "hammer", "cup"]
    recalled = model.recall([history], RecallOptions(top=2, interests=3, exclude_seen=False))
    positions, led_by = recalled.row(0)[0], recalled.clicks_behind(0)
    assert len(set(led_by.tolist())) > 1
    reasons = model.explain(history, positions, led_by=led_by)
    clicks = model.items.ids_of(led_by)
    matched = [reasons.matched(column) for column in range(len(positions))]
    assert [click.item for click, _ in matched] == clicks
    np.testing.assert_allclose([share for _, share in matched], 1.0, rtol=1e-6)
    np.testing.assert_allclose(reasons.shares.sum(axis=0), 1.0, rtol=1e-6)
    assert not reasons.shares[0].any()  # a repeated click counts where it came last
    whole = model.explain(history, positions)
    if kind == "log-normalized":  # a group weight is of the history, whatever it led to
        assert reasons.clicks == whole.clicks
    if kind == "evidence":
        weights = [click.weight for click in reasons.clicks]
        np.testing.assert_allclose(weights, reasons.shares.mean(axis=1))


def test_nothing_is_noise_where_no_click_agrees_with_another():
    assert not noise_flags(np.array([0.2, 0.3, 0.5])).any()
    assert not noise_flags(np.array([1.0])).any()


def test_neighbours_are_summed_over_the_history(neighbour_shop):
    assert recalled_ids(neighbour_shop, ["tea", "spoon"], top=2) == ["cup", "hammer"]
    assert recalled_ids(neighbour_shop, ["tea", "spoon"], top=2, scope="last") == ["hammer"]
    assert recalled_ids(neighbour_shop, ["tea"], categories=("tools",)) == []
    reasons = neighbour_shop.explain(["tea", "spoon"], neighbour_shop.items.positions_of(["cup"]))
    assert reasons.shares[:, 0].tolist() == [1, 0]
    assert reasons.clicks[0].weight is None


@pytest.mark.parametrize(
    "options", [{"top": 0}, {"top": 1.5}, {"scope": "best"}, {"per_category": 0}]
)
def test_impossible_options_are_refused(options):
    with pytest.raises(ParameterError):
        RecallOptions(**options)


def test_a_category_filter_needs_categories(tmp_path):
    model = open_artifact(write_shop(tmp_path, categories=None))
    for options in ({"categories": ("tools",)}, {"per_category": 1}):
        with pytest.raises(DataError, match="no categories"):
            model.recall([["tea"]], RecallOptions(**options))


def test_letters_of_an_id_are_no_history(shop):
    for histories in (["tea", "cup"], "tea", np.array(["tea"])):
        with pytest.raises(DataError, match="sequence"):
            shop.recall(histories)
    assert shop.recall([{"tea", "none"}]).unknown == [["none"]]
    assert shop.recall([], RecallOptions(top=3)).positions.shape == (0, 3)
