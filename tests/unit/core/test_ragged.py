"""Groups: every way to build them, to take them apart, and to get them wrong."""

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from builders import offsets_of, ragged_sizes, seeds, steady
from groupnoise import Groups
from groupnoise.core.arrays import ragged_rows
from groupnoise.exceptions import DataError, EmptyGroupError

ROWS = np.arange(12.0).reshape(6, 2)


def as_lists(groups):
    return [group.tolist() for group in groups]


def test_lists_of_ids():
    groups = Groups.from_lists([[3, 1], [4]], targets=[0, 1])
    assert as_lists(groups) == [[3, 1], [4]]
    assert groups.offsets.tolist() == [0, 2, 3]
    assert groups.targets.tolist() == [0, 1]


def test_lists_of_feature_rows():
    groups = Groups.from_lists([ROWS[:1], ROWS[1:4]])
    assert groups.objects.shape == (4, 2)
    assert groups.targets is None


def test_any_iterable_of_groups_will_do():
    assert as_lists(Groups.from_lists(iter([[1], [2, 3]]))) == [[1], [2, 3]]


def test_sets_of_ids_come_sorted():
    assert as_lists(Groups.from_lists([{9, 2}, frozenset({4})])) == [[2, 9], [4]]


def test_dense_array_gives_groups_of_equal_size():
    groups = Groups.from_array(ROWS.reshape(2, 3, 2), targets=[7, 8])
    assert groups.sizes.tolist() == [3, 3]
    assert np.array_equal(groups[1], ROWS[3:])


@pytest.mark.parametrize("ids", [[5, 2, 5, 9, 2, 5], list("baxzax")], ids=["numbers", "words"])
def test_rows_with_a_group_id_need_not_be_adjacent(ids):
    groups, found = Groups.from_rows(ROWS, ids)
    expected = list(dict.fromkeys(ids))  # in order of first appearance
    assert found.tolist() == expected
    for row, key in enumerate(expected):
        assert np.array_equal(groups[row], ROWS[[i for i, own in enumerate(ids) if own == key]])


def test_targets_of_rows_may_come_per_row_or_per_group():
    ids = [5, 2, 5, 9, 2, 5]
    per_row, _ = Groups.from_rows(ROWS, ids, targets=[1, 0, 1, 1, 0, 1])
    per_group, _ = Groups.from_rows(ROWS, ids, targets=[1, 0, 1])
    assert per_row.targets.tolist() == per_group.targets.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "targets", [[1, 1, 0, 1, 1], [[1, 1], [0, 0], [1, 2], [0, 0], [0, 0]]], ids=["ids", "vectors"]
)
def test_rows_of_a_group_must_agree_on_their_target(targets):
    with pytest.raises(DataError, match="group 5 has rows with different targets, first at row 2"):
        Groups.from_rows(ROWS[:5], [5, 2, 5, 2, 2], targets=targets)


@pytest.mark.parametrize(
    "form",
    [np.asarray, sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array],
    ids=lambda form: form.__name__,
)
@pytest.mark.parametrize("dtype", [int, float, bool])
def test_indicator_rows_become_groups_of_columns(form, dtype):
    table = np.array([[0, 1, 1], [1, 0, 0]], dtype=dtype)
    groups = Groups.from_indicator(form(table), targets=[3, 4])
    assert as_lists(groups) == [[1, 2], [0]]
    assert groups.objects.dtype == np.int64


def test_stored_zeros_of_a_sparse_indicator_are_not_members():
    table = sparse.csr_array(np.array([[1, 1, 1]]))
    table.data[1] = 0
    assert as_lists(Groups.from_indicator(table)) == [[0, 2]]
    assert table.nnz == 3  # the caller's matrix is left as it was


@steady
@given(sizes=ragged_sizes, seed=seeds)
def test_slices_subsets_and_joins_agree_with_lists(sizes, seed):
    generator = np.random.default_rng(seed)
    objects = generator.integers(100, size=sum(sizes))
    targets = generator.integers(9, size=len(sizes))
    groups = Groups(objects, offsets_of(sizes), targets)
    lists = as_lists(groups)
    rows = generator.integers(len(sizes), size=3)
    assert as_lists(groups.subset(rows)) == [lists[row] for row in rows]
    assert groups.subset(rows).targets.tolist() == targets[rows].tolist()
    assert as_lists(groups[-1:]) == lists[-1:]
    assert as_lists(groups[::-1]) == lists[::-1]
    joined = Groups.concat([groups, groups.subset(rows)])
    assert as_lists(joined) == lists + [lists[row] for row in rows]
    assert joined.targets.tolist() == [*targets, *targets[rows]]
    assert groups.group_of_object.tolist() == [
        row for row, size in enumerate(sizes) for _ in range(size)
    ]


def test_a_subset_may_be_a_boolean_mask():
    groups = Groups.from_lists([[1], [2, 3], [4]])
    assert as_lists(groups.subset([False, True, True])) == [[2, 3], [4]]


def test_negative_rows_count_from_the_end():
    assert Groups.from_lists([[1], [2, 3]])[-1].tolist() == [2, 3]


def test_a_group_that_does_not_exist_is_named():
    with pytest.raises(IndexError, match="group 2 does not exist; there are 2"):
        Groups.from_lists([[1], [2, 3]])[2]


def test_mapped_files_are_not_copied(tmp_path):
    np.save(tmp_path / "objects.npy", ROWS)
    mapped = np.load(tmp_path / "objects.npy", mmap_mode="r")
    assert Groups(mapped, [0, 2, 6]).objects is mapped


def test_repr_tells_how_much_there_is():
    assert repr(Groups.from_lists([[1], [2, 3]])) == "Groups(2 groups, 3 objects, sizes 1-2)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Groups.from_lists([[1], [], [2], []]),
        lambda: Groups.from_lists([ROWS[:1], ROWS[:0], ROWS[:1], ROWS[:0]]),
        lambda: Groups(np.arange(2), [0, 1, 1, 2, 2]),
        lambda: Groups.from_indicator([[1, 0], [0, 0], [1, 0], [0, 0]]),
        lambda: Groups.from_indicator(sparse.csr_array([[1, 0], [0, 0], [1, 0], [0, 0]])),
    ],
    ids=["ids", "features", "duplicate_offsets", "indicator", "sparse_indicator"],
)
def test_empty_groups_are_counted_and_the_first_is_named(make):
    with pytest.raises(EmptyGroupError, match="2 of 4 groups are empty, first at row 1"):
        make()


def test_a_dense_array_of_size_zero_holds_empty_groups_alone():
    with pytest.raises(EmptyGroupError, match="2 of 2 groups are empty"):
        Groups.from_array(np.zeros((2, 0, 3)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Groups.from_lists([]),
        lambda: Groups.from_array(np.zeros((0, 3, 2))),
        lambda: Groups.from_rows(ROWS[:0], []),
        lambda: Groups.from_indicator(np.zeros((0, 3))),
        lambda: Groups.from_indicator(sparse.csr_array((0, 3))),
        lambda: Groups(ROWS[:0], [0]),
        lambda: Groups.from_lists([[1]]).subset([]),
        lambda: Groups.from_lists([[1]])[1:],
    ],
    ids=["lists", "array", "rows", "indicator", "sparse", "offsets", "subset", "slice"],
)
def test_nothing_at_all_is_refused(make):
    with pytest.raises(DataError, match=r"0 (groups|rows) .*at least one is needed"):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["objects", "targets"])
def test_values_that_are_no_numbers_are_refused_with_their_row(kind, bad):
    objects, targets = ROWS.copy(), np.zeros((3, 2))
    (objects if kind == "objects" else targets)[2, 1] = bad
    with pytest.raises(DataError, match=f"{kind} holds 1 NaN or infinite values, .* row 2"):
        Groups(objects, [0, 1, 2, 6], targets)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Groups.from_lists([ROWS, ROWS[:, :1]]), "group 1 has shape (6, 1), group 0"),
        (lambda: Groups.from_lists([[[1, 2], [3]]]), "group 0 must hold rows of one width"),
        (lambda: Groups.from_array([[[1, 2]], [[3]]]), "must hold rows of one width"),
        (lambda: Groups.from_rows([[1, 2], [3]], [0, 0]), "must hold rows of one width"),
        (lambda: Groups([[1, 2], [3]], [0, 2]), "must hold rows of one width"),
        (
            lambda: Groups.concat([Groups(ROWS, [0, 6]), Groups(ROWS[:, :1], [0, 6])]),
            "objects must share one width; the parts have [(1,), (2,)]",
        ),
    ],
    ids=["between_groups", "inside_a_group", "array", "rows", "objects", "concat"],
)
def test_ragged_widths_are_refused(make, message):
    with pytest.raises(DataError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([-1, 6], "must run from 0 to the number of objects (6); they run from -1 to 6"),
        ([1, 6], "they run from 1 to 6"),
        ([0, 5], "they run from 0 to 5"),
        ([0, 4, 3, 6], "must not decrease: entry 2 (3) is below entry 1 (4)"),
        ([0, -2, 6], "must not decrease: entry 1 (-2) is below entry 0 (0)"),
        ([0.0, 6.0], "row of whole numbers; got dtype float64"),
        (["0", "6"], "row of whole numbers; got dtype <U1"),
        ([[0, 6]], "row of whole numbers; got dtype int64, shape (1, 2)"),
        ([], "row of whole numbers"),
        (6, "offsets must be a list or an array"),
    ],
    ids=str,
)
def test_bad_offsets_are_refused_with_the_place(offsets, message):
    with pytest.raises(DataError) as caught:
        Groups(ROWS, offsets)
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", [object, str, complex, "datetime64[s]"])
def test_objects_of_a_wrong_type_are_refused(dtype):
    with pytest.raises(DataError, match="must be numeric features or integer ids; got dtype"):
        Groups(np.array([0, 1]).astype(dtype), [0, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Groups(ROWS, [0, 6], [1, 2]), "1 group came with 2 targets"),
        (lambda: Groups.from_lists([[1]], targets=3), "targets must be a list or an array"),
        (lambda: Groups.from_lists([3, 4]), "group 0 must be a list or an array"),
        (lambda: Groups.from_array(np.arange(3)), r"needs shape \(groups, size, ...\); got \(3,\)"),
        (lambda: Groups.from_rows(ROWS, [0, 1]), r"6 rows came with group ids of shape \(2,\)"),
        (lambda: Groups.from_rows(ROWS[:1], [0, 1]), r"^1 row came with group ids of shape"),
        (lambda: Groups.from_rows(ROWS, [[0]] * 6), "one id per row"),
        (lambda: Groups.from_indicator([[0, 2]]), "may hold only 0 and 1"),
        (lambda: Groups.from_indicator(sparse.csr_array([[0, 2]])), "may hold only 0 and 1"),
        (lambda: Groups.from_indicator([[0, np.nan]]), "NaN or infinite"),
        (lambda: Groups.from_indicator([0, 1]), "an indicator must be a matrix"),
        (lambda: Groups.concat([]), "nothing to concatenate"),
        (
            lambda: Groups.concat([Groups(ROWS, [0, 6]), Groups(ROWS, [0, 6], [1])]),
            "some parts have targets and some have none",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_in_one_sentence(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_a_repeated_entry_of_a_sparse_indicator_is_not_a_member_twice():
    entries = (np.array([1, 1]), np.array([0, 0]), np.array([0, 2]))
    with pytest.raises(DataError, match="may hold only 0 and 1"):
        Groups.from_indicator(sparse.csr_array(entries, shape=(1, 3)))


@pytest.mark.parametrize("rows", [slice(1, 3), [1, 2], np.array([False, True, True, False])])
def test_neighbours_share_the_memory_of_the_whole(rows):
    whole = Groups.from_lists([[1], [2, 3], [4], [5, 6]], targets=[0, 1, 2, 3])
    part = whole.subset(rows)
    assert [group.tolist() for group in part] == [[2, 3], [4]]
    assert part.targets.tolist() == [1, 2]
    assert np.shares_memory(part.objects, whole.objects)


def test_rows_of_no_length_leave_no_trace():
    assert ragged_rows([4, 9, 0], [2, 0, 1]).tolist() == [4, 5, 0]
