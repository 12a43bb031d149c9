"""The portfolio of a plain fit on candidate labels, and the facts of the data that choose it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray
from groupnoise.core.prior_weights import integer_labels
from groupnoise.decisions.portfolio import Option

PLANS = (
    (1_000, (64, 60, 2)),
    (4_000, (64, 60, 1)),
    (10_000, (128, 40, 2)),
    (math.inf, (128, 40, 1)),
)
"""(maximum rows, (batch size, epochs, members per setting)): large data need fewer passes."""
MAX_KERNEL_ROWS = 4_000
"""Above this a full kernel costs more than networks, which have enough data by then."""
LARGE_ROWS = 10_000
"""Above this networks are regularized less."""
MAX_SPARSITY = 0.5
"""Fraction of zeros above which power transforms are not tried."""
Table = tuple[tuple[str, dict[str, Any], str, float], ...]
"""Name, parameters, the data that the setting fits, and complexity."""
STANDARD, POWER, L2 = ({"scaling": each} for each in ("standard", "power", "l2"))
OVER_LABELS = {"normalize": "objects"}
NARROW, WIDE = {"kernel_scale": 0.5}, {"kernel_scale": 2.0}
LIGHT, STRONG = {"weight_decay": 0.3}, {"weight_decay": 1.0}
WEIGHTED = {**LIGHT, "weighting_strength": 1.0}
LINEAR = {**STANDARD, **OVER_LABELS, "encoder": "linear"}
KERNELS: Table = tuple(
    (f"kernel, {name}", {"encoder": "kernel", **OVER_LABELS, **parameters}, why, 0.5)
    for name, parameters, why in (
        ("standard", STANDARD, "nearby rows share labels"),
        ("wide", STANDARD | WIDE, "distant rows share labels too"),
        (
            "narrow",
            STANDARD | NARROW | {"kernel_ridge": 0.3},
            "only very near rows share labels, regularized",
        ),
        ("narrow, free", STANDARD | NARROW, "only near rows share labels"),
        ("power", POWER, "rows share labels once long tails are compressed"),
        ("l2", L2, "rows share labels by direction, not length"),
        ("l2, wide", L2 | WIDE, "rows in other directions share labels too"),
        (
            "l2, linear",
            L2 | {"kernel_scale": 4.0, "kernel_ridge": 0.01},
            "labels are almost linear in the direction of rows",
        ),
    )
)
TREES: Table = (
    (
        "trees",
        STANDARD | OVER_LABELS | {"encoder": "trees"},
        "labels depend on feature thresholds",
        0.5,
    ),
    (
        "random trees",
        STANDARD | OVER_LABELS | {"encoder": "random trees"},
        "labels depend a little on many thresholds",
        0.5,
    ),
)
NETWORKS: Table = (
    (
        "mlp, standard",
        STANDARD | WEIGHTED,
        "a network on standardized features, lightly regularized",
        1.0,
    ),
    ("mlp, l2", L2 | WEIGHTED, "a network on row directions, lightly regularized", 1.0),
    ("mlp, power", POWER | WEIGHTED, "a network on features with compressed tails", 1.2),
    ("mlp, standard, free", STANDARD, "an unregularized network", 1.5),
    ("mlp, l2, decay", L2 | STRONG, "a network on row directions, strongly regularized", 0.9),
    (
        "mlp, standard, decay",
        STANDARD | STRONG,
        "a network on standardized features, strongly regularized",
        0.9,
    ),
    (
        "mlp, standard, over labels",
        STANDARD | LIGHT | OVER_LABELS,
        "a network normalized over labels only",
        1.0,
    ),
    ("linear, standard", LINEAR | STRONG, "labels are linear in the features", 0.0),
    (
        "linear, soft",
        LINEAR | LIGHT | {"temperature": 20.0},
        "labels are linear in the features, and candidates hardly differ",
        0.0,
    ),
)
LARGE_NETWORKS: Table = tuple(
    (f"mlp, {name}", parameters, why, 1.0)
    for name, parameters, why in (
        (
            "standard, over labels",
            STANDARD | OVER_LABELS | {"dropout": 0.2},
            "a network over features of equal spread",
        ),
        (
            "power, over labels",
            POWER | OVER_LABELS | {"dropout": 0.2},
            "a network on features with compressed tails",
        ),
        (
            "l2, over labels",
            L2 | OVER_LABELS | {"dropout": 0.2},
            "a network over the directions of rows",
        ),
        (
            "standard, deep",
            STANDARD | OVER_LABELS | {"hidden": (300, 300), "dropout": 0.2},
            "a network of two hidden layers",
        ),
        ("standard, free", STANDARD | {"dropout": 0.2}, "a network normalised over rows too"),
        ("standard, dropout", STANDARD | OVER_LABELS, "a network held back by dropout"),
    )
)
"""Above `LARGE_ROWS`: less regularization."""
MIN_ORDERED_LABELS = 10
"""From this many labels on, whole numbers may be an ordinal scale such as ages."""
MAX_SPREAD = 0.5
"""Maximum spread of the candidates of a row, relative to chance, for labels to count as ordered;
held-out rows then decide whether predictions are smoothed over neighbours."""


def facts_of_rows(
    rows: NDArray[Any], candidates: BoolArray, classes: NDArray[Any]
) -> dict[str, Any]:
    """Return summary statistics of rows (n_rows, n_features) and candidates (n_rows, n_classes)."""
    sizes = candidates.sum(axis=1)
    numbers = integer_labels(classes) if len(classes) >= MIN_ORDERED_LABELS else None
    return {
        "rows": len(rows),
        "features": rows.shape[1],
        "classes": len(classes),
        "candidates per row": round(float(sizes.mean()), 3),
        "rows with one candidate": int((sizes == 1).sum()),
        "fraction of zeros": round(float((rows == 0).mean()), 3),
        "ordered labels": numbers is not None
        and _are_neighbours(candidates[:, np.argsort(numbers)]),
    }


def _are_neighbours(candidates: BoolArray) -> bool:
    """Return whether the candidates of a row are much closer to each other than by chance."""
    columns = np.arange(candidates.shape[1])
    sizes = candidates.sum(axis=1)
    several = sizes > 1
    if not several.any():
        return False
    some, n = candidates[several], sizes[several]
    mean = some @ columns / n
    spread = np.sqrt(np.maximum(some @ columns**2 / n - mean**2, 0.0)).mean()
    frequency = candidates.mean(axis=0) / candidates.mean(axis=0).sum()
    centre = frequency @ columns
    # A small sample is closer to its own mean than to the population mean.
    by_chance = np.sqrt(frequency @ (columns - centre) ** 2) * np.sqrt(1 - 1 / n).mean()
    return bool(spread < MAX_SPREAD * by_chance)


def candidate_options(facts: Mapping[str, Any]) -> list[Option]:
    """Return the settings to try, the safest first."""
    n_rows = facts["rows"]
    batch_size, max_epochs, n_members = next(plan for limit, plan in PLANS if n_rows <= limit)
    is_large = n_rows > LARGE_ROWS
    common = {
        "encoder": "mlp",
        "hidden": (300,),
        "dropout": 0.5,
        "normalize": "both",
        "temperature": (1.0, 0.3),
        "weighting_strength": 0.0,
        "max_epochs": max_epochs,
        "batch_size": batch_size,
        "learning_rate": 3e-3 if is_large else 1e-2,
        "weight_decay": 0.0,
        "n_members": n_members,
        "ordinal_smoothing": 0.0,
        "answer_temperature": 1.0,
        "label_offsets": None,
        "kernel_scale": 1.0,
        "kernel_ridge": 0.05,
    }
    table = LARGE_NETWORKS if is_large else (*NETWORKS, *TREES)
    if n_rows <= MAX_KERNEL_ROWS:
        table += KERNELS
    sparse = facts["fraction of zeros"] > MAX_SPARSITY
    return [
        Option(name, {**common, **parameters}, why, complexity)
        for name, parameters, why, complexity in table
        if not (sparse and parameters["scaling"] == "power")
    ]
