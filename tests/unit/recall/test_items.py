import numpy as np
import pytest

from groupnoise.exceptions import DataError
from groupnoise.recall.items import ItemTable, pack_items


def table(ids, **columns):
    columns = {"popularity": np.ones(len(ids)), "titles": None, "categories": None, **columns}
    return ItemTable(*pack_items(ids=ids, **columns))


@pytest.mark.parametrize("ids", [[30, 10, 20], ["b", "ä", "a much longer id"]])
def test_every_id_is_found_where_it_stands(ids):
    items = table(ids)
    assert items.positions_of(ids).tolist() == [0, 1, 2]
    assert [items.id_of(position) for position in range(3)] == ids
    assert items.ids_of(np.array([2, 0])) == [ids[2], ids[0]]


@pytest.mark.parametrize("stranger", ["zz", "", "b\0", "b" * 500, "1", 7, None, 2**70, -5, 3.5])
def test_unknown_ids_are_minus_one_in_a_text_catalogue(stranger):
    assert table(["b", "a"]).positions_of([stranger, "a"]).tolist() == [-1, 1]


@pytest.mark.parametrize("stranger", ["zz", "", " 1", "01", "1.0", None, 2**70, 1.5, True, [1]])
def test_unknown_ids_are_minus_one_in_a_numbered_catalogue(stranger):
    assert table([5, 1]).positions_of([stranger, 1]).tolist() == [-1, 1]


def test_numbers_written_as_text_are_found_too():
    assert table([5, 1]).positions_of(["5", "1"]).tolist() == [0, 1]


def test_repeated_ids_are_refused():
    with pytest.raises(DataError, match="occurs twice"):
        table(["a", "b", "a"])


@pytest.mark.parametrize("bad", ["", "x" * 1001, "nul\0inside"])
def test_unusable_ids_are_refused_by_row(bad):
    with pytest.raises(DataError, match="row 1"):
        table(["a", bad])


def test_columns_of_another_length_are_refused():
    with pytest.raises(DataError, match=r"titles must have one entry per item \(2\); got 1"):
        table([1, 2], titles=["one"])


def test_titles_and_categories_come_back():
    items = table([1, 2], titles=["Tea  cup\n", "Ähre"], categories=["b", "a"])
    assert [items.title_of(0), items.title_of(1)] == ["Tea cup", "Ähre"]
    assert [items.category_of(0), items.category_of(1)] == ["b", "a"]
    assert items.in_categories(["b"]).tolist() == [0]


def test_without_titles_and_categories_there_are_none():
    items = table([1])
    assert items.title_of(0) is None
    assert items.category_of(0) is None
    with pytest.raises(DataError, match="no categories"):
        items.in_categories(["b"])


def test_an_unknown_category_is_named():
    with pytest.raises(DataError, match="'tools'"):
        table([1], categories=["toys"]).in_categories(["tools"])


TITLES = ["Tea cup", "Steam tea kettle", "Steampunk hat", "Crème brûlée dish", "Cup of tea"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tea", [4, 0, 1, 2]),  # whole words by popularity, then inside "Steam"
        ("CUP tea", [4, 0]),
        ("creme BRULEE", [3]),
        ("nothing", []),
        (".*", []),
        ("12", [2]),  # an id
    ],
)
def test_a_title_search_ranks_by_word_and_popularity(query, expected):
    items = table([10, 11, 12, 13, 14], titles=TITLES, popularity=[1, 1, 9, 1, 5])
    assert items.search(query, 10).tolist() == expected


def test_a_search_returns_no_more_than_asked():
    items = table([1, 2, 3], titles=["tea"] * 3)
    assert len(items.search("tea", 2)) == 2


def test_categories_joined_as_answers_show_them_are_told_apart():
    items = table(["a", "b"], categories=[["K05", "Marke=Gamma"], ["K05", "Marke=Alpha"]])
    for ask in (items.in_categories, lambda names: items.having("category", names)):
        with pytest.raises(DataError, match="is 2 categories, joined as answers show") as refusal:
            ask(["K05|Marke=Gamma"])
        assert '{"category": "K05", "Marke": "Gamma"}' in str(refusal.value)
        with pytest.raises(DataError, match=r"no category is called 'K05\|x'"):
            ask(["K05|x"])
