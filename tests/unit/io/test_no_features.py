"""Columns that name rows or give the answer away are no features; measurements stay."""

import numpy as np
import polars as pl
import pytest
from sklearn import datasets

from groupnoise.bags import read_bags
from groupnoise.candidates import read_candidates
from groupnoise.exceptions import DataError
from groupnoise.io.columns.exclusions import exclusion_reason, is_id_name
from groupnoise.io.tables.table import read_table


def fault_of(cells):
    return exclusion_reason(read_table({"x": cells}), "x")


def drawn(kind, seed, n=300):
    """Return whole numbers as they are measured, or as ids are given."""
    generator = np.random.default_rng(seed)
    return {
        "ages": lambda: generator.integers(18, 90, n),
        "counts": lambda: generator.poisson(30, n),
        "years": lambda: generator.integers(1900, 2020, n),
        "incomes": lambda: generator.lognormal(10.6, 0.5, n).round().clip(10_000, 99_999),
        "prices": lambda: generator.lognormal(12.3, 0.5, n).round(),
        "pressures": lambda: generator.normal(101_325, 700, n).round(),
        "heights": lambda: generator.normal(2800, 400, n).round(),
        "few incomes": lambda: generator.normal(50_000, 15_000, 60).round(),
        "postal codes": lambda: generator.choice(np.arange(10_000, 100_000), n),
        "visits": lambda: np.repeat(generator.choice(np.arange(100_000, 1_000_000), n // 3), 3),
        "accounts": lambda: 4_711_000_000 + generator.choice(10**6, n, replace=False),
        "patients": lambda: generator.choice(np.arange(1000, 4000), n, replace=False),
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    ["ages", "counts", "years", "incomes", "prices", "pressures", "heights", "few incomes"],
)
def test_whole_numbers_that_are_measured_stay_features(kind):
    assert [fault_of(drawn(kind, seed)) for seed in range(20)] == [None] * 20


@pytest.mark.parametrize("kind", ["postal codes", "visits", "accounts", "patients"])
def test_whole_numbers_in_no_order_that_name_something_are_no_features(kind):
    faults = [fault_of(drawn(kind, seed)) for seed in range(20)]
    assert sum("as ids are; --features takes it" in (fault or "") for fault in faults) >= 18


@pytest.mark.parametrize("load", ["iris", "wine", "breast_cancer", "diabetes", "digits"])
def test_features_of_known_tables_stay(load):
    rows = getattr(datasets, f"load_{load}")().data
    faults = {fault_of(column) for column in rows.T}
    assert faults <= {None, "constant"}


def test_codes_with_zeros_in_front_are_no_features():
    assert "zeros in front" in fault_of(["01067", "70173", "10115", "04109"] * 5)
    assert fault_of(["0.5", "1.0", "0", "2"] * 5) is None


def test_numbers_of_patients_that_bags_share_are_no_features():
    generator = np.random.default_rng(0)
    patient = generator.choice(np.arange(20_000, 21_000), 60, replace=False)
    bag = np.repeat(np.arange(60), 4)
    said = []
    data = read_bags(
        pl.DataFrame(
            {
                "bag": [f"b{each}" for each in bag],
                "label": np.where(bag % 2, "yes", "no"),
                "besuch": patient[np.minimum(bag, 58)],
                "x": generator.normal(size=240),
                "y": generator.normal(size=240),
            }
        ),
        report=said.append,
    )
    assert data.feature_names == ("x", "y")
    assert any("'besuch' (whole numbers as ids are; --features takes it" in each for each in said)


def birds(truth, n=120):
    """Return rows with the true bird and another as candidates."""
    generator = np.random.default_rng(0)
    names = ["wren", "robin", "tit", "owl"]
    right = generator.integers(4, size=n)
    other = (right + generator.integers(1, 4, n)) % 4
    return pl.DataFrame(
        {
            "x": generator.normal(size=n),
            "y": generator.normal(size=n),
            "place": generator.choice(["wood", "field"], n),
            "vogel": [truth[each] for each in right],
            "candidates": [f"{names[a]};{names[b]}" for a, b in zip(right, other, strict=True)],
        }
    )


@pytest.mark.parametrize(
    "truth", [["Zaunkönig", "Rotkehlchen", "Meise", "Eule"], [17, 3, 8, 44], [4.0, 3.0, 2.0, 1.0]]
)
def test_the_truth_in_other_words_is_no_feature(truth):
    said = []
    data = read_candidates(birds(truth), report=said.append)
    assert not any(name.startswith("vogel") for name in data.feature_names)
    assert any("'vogel' (each value always stands beside a candidate" in each for each in said)


def test_a_category_that_two_labels_share_stays_a_feature():
    data = read_candidates(birds(["small", "small", "small", "large"]))
    assert any(name.startswith("vogel") for name in data.feature_names)


@pytest.mark.parametrize("mark", [".", ","])
def test_a_label_that_is_measured_is_refused(mark):
    generator = np.random.default_rng(0)
    bag = np.repeat(np.arange(40), 3)
    cells = [f"{each:.2f}".replace(".", mark) for each in generator.normal(3, 1, 40)[bag]]
    rows = {"bag": bag, "label": cells, "x": generator.normal(size=120)}
    with pytest.raises(DataError, match=r"'label' holds \d+ different numbers .* cut the numbers"):
        read_bags(pl.DataFrame(rows))


def test_grades_are_labels():
    bag = np.repeat(np.arange(40), 3)
    rows = {"bag": bag, "label": [("1.3", "1.7", "2.0")[each % 3] for each in bag]}
    data = read_bags(pl.DataFrame({**rows, "x": np.random.default_rng(0).normal(size=120)}))
    assert data.class_names == ["1.3", "1.7", "2.0"]


def numbered(generator, first=1):
    """Bags of three to six rows, whose rows are numbered, in any order."""
    sizes = generator.integers(3, 7, 12)
    bag = np.repeat(np.arange(12), sizes)
    number = np.concatenate([first + generator.permutation(size) for size in sizes])
    order = generator.permutation(len(bag))
    rows = {"bag": [f"b{each}" for each in bag], "label": np.where(bag % 2, "yes", "no")}
    rows |= {"number": number, "x": generator.normal(size=len(bag))}
    return pl.DataFrame(rows)[order]


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_the_rows_of_each_bag_are_no_feature_in_any_order(first):
    said = []
    frame = numbered(np.random.default_rng(0), first)
    assert read_bags(frame, report=said.append).feature_names == ("x",)
    assert "left out 'number' (row numbers of each group; --features takes it" in "; ".join(said)
    assert read_bags(frame, features="number,x").feature_names == ("number", "x")


def test_counts_and_few_numbered_bags_stay_features():
    generator = np.random.default_rng(0)
    frame = numbered(generator)
    counts = pl.Series("number", generator.integers(1, 5, len(frame)))
    assert "number" in read_bags(frame.with_columns(counts)).feature_names
    few = frame.filter(pl.col("bag").is_in(["b0", "b1", "b2"]))
    assert "number" in read_bags(few).feature_names


@pytest.mark.parametrize(
    ("name", "is_id"),
    [
        ("Fallnummer", True),
        ("Kundennr.", True),
        ("serial_no", True),
        ("caseNumber", True),
        ("prontuário", True),
        ("MRN", True),
        ("atomic number", False),
        ("market cap", False),
        ("nr", True),
        ("Temperatur", False),
    ],
)
def test_names_of_ids_are_known_in_several_languages(name, is_id):
    assert is_id_name(name) == is_id
