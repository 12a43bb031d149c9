"""Feature scaling: learned from training rows, and the same for rows seen later."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from sklearn.preprocessing import PowerTransformer

from groupnoise.core import arrays, scaling
from groupnoise.core.groups import Groups
from groupnoise.core.power_transform import PowerTransform, yeo_johnson
from groupnoise.core.scaling import LANDMARKS, MIN_SPREAD, PIECES, SCALINGS, Scaler
from groupnoise.core.streamed_groups import scaled_groups
from groupnoise.exceptions import DataError

ROWS = np.random.default_rng(0).normal(3.0, [1.0, 10.0, 100.0], size=(50, 3))


def test_standard_centres_and_spreads_every_feature():
    scaled = Scaler("standard").fit(ROWS)(ROWS)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-5)


def test_l2_gives_every_row_one_length_and_keeps_its_direction():
    scaled = Scaler("l2").fit(ROWS)(ROWS)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), np.sqrt(3), rtol=1e-5)
    cosine = (scaled * ROWS).sum(axis=1) / np.sqrt(3) / np.linalg.norm(ROWS, axis=1)
    np.testing.assert_allclose(cosine, 1.0, rtol=1e-5)


def test_l2_leaves_a_row_of_zeros_alone():
    assert Scaler("l2").fit(ROWS)(np.zeros((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


def test_a_constant_feature_becomes_zero():
    rows = np.column_stack([np.full(5, 7.0), np.arange(5.0)])
    assert (Scaler("standard").fit(rows)(rows)[:, 0] == 0).all()


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("value", [1e200, -1e39])
def test_a_value_beyond_single_precision_is_refused_by_its_place(kind, value):
    rows = ROWS.copy()
    rows[4, 2] = value
    with pytest.raises(DataError, match=r"row 4, column 2 of the features holds (1e\+200|-1e\+39)"):
        Scaler(kind).fit(rows)


@pytest.mark.parametrize("kind", [*SCALINGS, PIECES, LANDMARKS])
def test_a_later_value_beyond_single_precision_is_refused_like_one_in_training(kind):
    scaler = Scaler(kind).fit(ROWS)
    rows = ROWS[:5].copy()
    rows[3, 1] = 1e200
    with pytest.raises(DataError, match=r"row 3, column 1 of the features holds 1e\+200"):
        scaler(rows)


def test_a_value_that_is_too_large_only_once_scaled_is_refused_too():
    scaler = Scaler("standard").fit(ROWS * 1e-6)
    with pytest.raises(DataError, match=r"row 1, column 0 of the features holds 1e\+38"):
        scaler(np.array([[0.0, 0.0, 0.0], [1e38, 0.0, 0.0]]))


LONG_TAILS = np.random.default_rng(1).lognormal(0.0, [0.5, 1.5], size=(400, 2))


def test_power_makes_long_tails_symmetric():
    scaled = Scaler("power").fit(LONG_TAILS)(LONG_TAILS)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-5)
    assert (np.abs((scaled**3).mean(axis=0)) < 0.5).all()
    assert ((Scaler("standard").fit(LONG_TAILS)(LONG_TAILS) ** 3).mean(axis=0) > 1.0).all()


@pytest.mark.parametrize("centre", [0.0, 1.0, 20.0])  # no value below zero, some, all
def test_power_agrees_with_scikit_learn(centre):
    few = np.random.default_rng(2).poisson(0.3, size=(400, 1))
    rows = np.hstack([LONG_TAILS - centre, 0.01 * LONG_TAILS, few])
    expected = PowerTransformer().fit_transform(rows)
    np.testing.assert_allclose(Scaler("power").fit(rows)(rows), expected, atol=2e-4)


def test_power_keeps_the_order_of_a_feature():
    scaler = Scaler("power").fit(LONG_TAILS)
    ordered = scaler(np.sort(LONG_TAILS, axis=0))
    assert (np.diff(ordered, axis=0) >= 0).all()


def test_power_does_not_explode_beyond_the_training_range():
    scaler = Scaler("power").fit(LONG_TAILS)
    ends = scaler(np.stack([LONG_TAILS.min(axis=0), LONG_TAILS.max(axis=0)]))
    beyond = scaler(np.array([[-1e9, -1e9], [1e9, 1e9]]))
    np.testing.assert_array_equal(beyond, ends)


@pytest.mark.parametrize("unit", [1.0, 1e-16, 1e-200, 1e-310])
def test_power_of_constant_and_binary_features_is_finite(unit):
    rows = np.column_stack([np.full(30, 7.0), np.arange(30) % 2, np.eye(30)[0]])
    rows[:, 1:] *= unit
    scaled = Scaler("power").fit(rows)(rows)
    assert np.isfinite(scaled).all()
    np.testing.assert_allclose(scaled[:, 0], 0.0, atol=1e-9)


def test_power_tells_values_apart_however_far_from_zero():
    rows = np.column_stack([1e4 + LONG_TAILS[:, 0], 1.6e9 + 1e7 * LONG_TAILS[:, 0]])
    scaled = Scaler("power").fit(rows)(rows)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, rtol=1e-3)
    assert [len(np.unique(feature)) for feature in scaled.T] == [len(rows)] * 2


def test_yeo_johnson_agrees_with_its_definition():
    def plain(value: float, exponent: float) -> float:
        if value >= 0:
            return math.log1p(value) if exponent == 0 else ((1 + value) ** exponent - 1) / exponent
        mirrored = 2 - exponent
        return -math.log1p(-value) if mirrored == 0 else -((1 - value) ** mirrored - 1) / mirrored

    values = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    for exponent in (-1.5, 0.0, 0.7, 1.0, 2.0, 3.0):
        expected = [plain(value, exponent) for value in values]
        np.testing.assert_allclose(yeo_johnson(values, np.array([exponent])), expected, rtol=1e-9)


def test_what_is_stored_scales_alike():
    for kind in ("standard", "l2", "power", "none"):
        scaler = Scaler(kind).fit(LONG_TAILS)
        restored = Scaler.from_arrays(kind, scaler.arrays())
        np.testing.assert_array_equal(restored(LONG_TAILS), scaler(LONG_TAILS))


def test_pieces_are_indicators_of_codes_and_excesses_over_quantiles():
    generator = np.random.default_rng(1)
    codes = generator.choice([0.0, 1.0, 3.0], size=200, p=[0.49, 0.49, 0.02])
    rows = np.column_stack([codes, generator.normal(size=200), generator.integers(2, size=200)])
    scaler = Scaler(PIECES).fit(rows)
    pieces = [[float(row[0] == code) for code in (0.0, 1.0, 3.0)] for row in rows]
    for part, row in zip(pieces, rows, strict=True):
        part.append(row[1])
        for share in (0.2, 0.4, 0.6, 0.8):
            part.append(max(row[1] - np.quantile(rows[:, 1], share), 0.0))
        part.append(row[2])
    pieces = np.array(pieces)
    spread = pieces.std(axis=0)
    spread[:3] = np.maximum(spread[:3], MIN_SPREAD)
    assert scaler.width == pieces.shape[1]
    np.testing.assert_allclose(scaler(rows), (pieces - pieces.mean(axis=0)) / spread, atol=1e-5)
    again = Scaler.from_arrays(PIECES, scaler.arrays())
    unknown = np.array([[2.0, 9.0, 1.0]])
    np.testing.assert_array_equal(again(unknown), scaler(unknown))
    assert (again(unknown)[0, :3] < 0).all()


def test_landmarks_are_rows_and_closeness_falls_with_the_mean_squared_distance():
    generator = np.random.default_rng(1)
    rows = np.column_stack([generator.normal(5.0, 3.0, size=60), np.ones(60)])
    scaler = Scaler(LANDMARKS).fit(rows)
    standard = (rows - rows.mean(axis=0)) / [rows[:, 0].std(), 1.0]
    closeness = np.empty((60, 60))
    for row, one in enumerate(standard):
        for place, other in enumerate(standard):  # so few rows are all landmarks
            closeness[row, place] = np.exp(-2.0 * (1.0 + 4.0 / 2) * sum((one - other) ** 2) / 2)
    spread = closeness.std(axis=0)
    np.testing.assert_allclose(
        scaler(rows), (closeness - closeness.mean(axis=0)) / spread, rtol=1e-4, atol=1e-5
    )
    again = Scaler.from_arrays(LANDMARKS, scaler.arrays())
    unknown = np.array([[1e6, 1.0]])
    np.testing.assert_array_equal(again(unknown), scaler(unknown))
    assert np.isfinite(again(unknown)).all()


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f4", np.float64])
def test_rows_scaled_as_they_are_read_are_those_scaled_at_once(kind, dtype):
    generator = np.random.default_rng(1)
    rows = generator.normal(3.0, [1.0, 10.0, 100.0], size=(2_500, 3))
    rows[:, 0] = np.exp(rows[:, 0])
    rows = rows.astype(dtype)
    scaler = Scaler(kind).fit(rows)
    place = np.full(rows.shape, np.nan, dtype=np.float32)
    scaler.scale_into(rows, place)
    np.testing.assert_allclose(place, scaler(rows), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", [*SCALINGS, PIECES, LANDMARKS])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_of_many_blocks_are_scaled_as_those_of_one(kind, dtype, monkeypatch):
    generator = np.random.default_rng(1)
    rows = generator.normal(3.0, [1.0, 10.0, 50.0], size=(700, 3))
    rows[:, 0] = np.exp(rows[:, 0])
    rows = np.column_stack([rows, np.full(700, 7.0)]).astype(dtype)
    expected = Scaler(kind).fit(rows)
    at_once = expected(rows)
    for module in (arrays, scaling):
        monkeypatch.setattr(module, "BLOCK_BYTES", 1_000)
    scaler = Scaler(kind).fit(rows)
    np.testing.assert_allclose((scaler.centre - expected.centre) / expected.spread, 0, atol=1e-6)
    np.testing.assert_allclose(scaler.spread, expected.spread, rtol=1e-6)
    np.testing.assert_allclose(scaler(rows), at_once, rtol=1e-5, atol=1e-5)
    _, groups = scaled_groups(kind, Groups(rows, [0, 300, 700]))
    np.testing.assert_allclose(groups.objects, at_once, rtol=1e-5, atol=1e-5)


def test_a_bad_value_of_a_later_block_is_named_by_its_own_row(monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK_BYTES", 1_000)
    scaler = Scaler("standard").fit(np.tile(ROWS, (10, 1)) * 1e-6)
    rows = np.zeros((400, 3))
    rows[333, 1] = 1e38
    with pytest.raises(DataError, match=r"row 333, column 1 of the features holds 1e\+38"):
        scaler(rows)


@pytest.mark.parametrize("kind", ["standard", "power", "rms"])
def test_scaling_long_rows_takes_little_more_than_the_scaled_copy(kind):
    some = np.random.default_rng(0).normal(size=(2_600, 128)).astype(np.float16)
    rows = np.tile(some, (40, 1))  # 27 MB
    groups = Groups(rows, [0, 80_000, 104_000])
    tracemalloc.start()
    try:
        _, scaled = scaled_groups(kind, groups)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert scaled.objects.nbytes == 2 * rows.nbytes
    assert peak - scaled.objects.nbytes < 2.5 * rows.nbytes  # a double copy alone would be 4


def test_powers_of_zero_and_two_are_logarithms_also_in_single_precision():
    table = np.array([[0.0, 2.0, 1.0], [-5.0] * 3, [5.0] * 3])
    rows = np.array([[-9.0, -2.0, -2.0], [3.0, 3.0, 9.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    raised = torch.from_numpy(rows.copy())
    PowerTransform(table).raise_in_place(raised)
    np.testing.assert_allclose(raised.numpy(), PowerTransform(table)(rows), rtol=1e-6)
