"""Facts of rows with candidate labels, and the settings worth trying on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray
from groupnoise.core.prior_weights import numbers_of
from groupnoise.decisions.portfolio import Option

PLANS = (
    (1_000, (64, 60, 2)),
    (4_000, (64, 60, 1)),
    (10_000, (128, 40, 2)),
    (math.inf, (128, 40, 1)),
)
"""(rows up to, (batch size, epochs, members of each setting)): many rows need fewer passes."""
MAX_KERNEL_ROWS = 4_000
"""Beyond this a kernel between all rows costs more than networks, which then know more."""
MANY_ROWS = 10_000
"""Beyond this settings hold back less."""
KERNEL = {"encoder": "kernel", "normalize": "objects"}
KERNELS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("standard", {"scaling": "standard"}, "few rows of a table"),
    (
        "wide",
        {"scaling": "standard", "kernel_scale": 2.0},
        "few rows and a nearly linear truth",
    ),
    (
        "narrow",
        {"scaling": "standard", "kernel_ridge": 0.3, "kernel_scale": 0.5},
        "labels in several clusters",
    ),
    (
        "narrow, free",
        {"scaling": "standard", "kernel_scale": 0.5},
        "labels in many clusters",
    ),
    ("power", {"scaling": "power"}, "few rows of counts"),
    ("l2", {"scaling": "l2"}, "few texts, features of one unit"),
    ("l2, wide", {"scaling": "l2", "kernel_scale": 2.0}, "texts of many words"),
    (
        "l2, linear",
        {"scaling": "l2", "kernel_scale": 4.0, "kernel_ridge": 0.01},
        "texts of many words and a nearly linear truth",
    ),
)
"""Name, parameters and occasion of the kernels, which are solved and cost next to nothing."""
OF_FEWER_ROWS: tuple[tuple[str, dict[str, Any], str, float], ...] = (
    (
        "mlp, standard",
        {"scaling": "standard", "weight_decay": 0.3, "weighting_strength": 1.0},
        "a table of features",
        1.0,
    ),
    (
        "mlp, l2",
        {"scaling": "l2", "weight_decay": 0.3, "weighting_strength": 1.0},
        "features of one unit, text",
        1.0,
    ),
    (
        "mlp, power",
        {"scaling": "power", "weight_decay": 0.3, "weighting_strength": 1.0},
        "counts and long tails",
        1.2,
    ),
    ("mlp, standard, free", {"scaling": "standard"}, "many rows", 1.5),
    ("mlp, l2, decay", {"scaling": "l2", "weight_decay": 1.0}, "few rows, many features", 0.9),
    ("mlp, standard, decay", {"scaling": "standard", "weight_decay": 1.0}, "few rows", 0.9),
    (
        "mlp, standard, over labels",
        {"scaling": "standard", "weight_decay": 0.3, "normalize": "objects"},
        "labels of very unequal frequency",
        1.0,
    ),
    (
        "linear, standard",
        {
            "scaling": "standard",
            "weight_decay": 1.0,
            "encoder": "linear",
            "normalize": "objects",
        },
        "few rows and a linear truth",
        0.0,
    ),
    (
        "linear, soft",
        {
            "scaling": "standard",
            "weight_decay": 0.3,
            "encoder": "linear",
            "normalize": "objects",
            "temperature": 20.0,
        },
        "a linear truth and candidates that are hard to tell apart",
        0.0,
    ),
)
"""Name, parameters, occasion and complexity of settings that are trained step by step."""
OF_MANY_ROWS: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "standard, over labels",
        {"scaling": "standard", "normalize": "objects", "dropout": 0.2},
        "many rows of a table",
    ),
    (
        "power, over labels",
        {"scaling": "power", "normalize": "objects", "dropout": 0.2},
        "many rows of counts and long tails",
    ),
    (
        "l2, over labels",
        {"scaling": "l2", "normalize": "objects", "dropout": 0.2},
        "many texts, features of one unit",
    ),
    (
        "standard, deep",
        {"scaling": "standard", "normalize": "objects", "hidden": (300, 300), "dropout": 0.2},
        "many rows and a truth of many parts",
    ),
    ("standard, free", {"scaling": "standard", "dropout": 0.2}, "labels of unequal frequency"),
    (
        "standard, dropout",
        {"scaling": "standard", "normalize": "objects"},
        "many rows and much noise",
    ),
)
"""Name, parameters and occasion of settings for more rows: less is held back."""
MIN_ORDERED = 10
"""From this number of labels on, whole numbers may be an order such as ages."""
MAX_SPREAD = 0.5
"""How far the candidates of a row lie from each other, in units of chance, if they have an order.
Whether answers are then averaged over neighbours is for held-out rows to say."""


def facts_of(rows: NDArray[Any], candidates: BoolArray, classes: NDArray[Any]) -> dict[str, Any]:
    """Return what is known of the data before any training.

    Name to number or text. `rows`: of shape (n_rows, n_features). `candidates` (n_rows, n_classes):
    the candidate labels.
    """
    sizes = candidates.sum(axis=1)
    numbers = numbers_of(classes) if len(classes) >= MIN_ORDERED else None
    return {
        "rows": len(rows),
        "features": rows.shape[1],
        "classes": len(classes),
        "candidates per row": round(float(sizes.mean()), 3),
        "rows with one candidate": round(float((sizes == 1).mean()), 3),
        "zeros among the features": round(float((rows == 0).mean()), 3),
        "labels in an order": numbers is not None
        and _are_neighbours(candidates[:, np.argsort(numbers)]),
    }


def _are_neighbours(candidates: BoolArray) -> bool:
    """Tell whether candidates of a row lie much nearer to each other than by chance."""
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
    # Few draws lie nearer to their own mean than to that of all.
    by_chance = np.sqrt(frequency @ (columns - centre) ** 2) * np.sqrt(1 - 1 / n).mean()
    return bool(spread < MAX_SPREAD * by_chance)


def portfolio(facts: Mapping[str, Any]) -> list[Option]:
    """Return the settings worth trying, the safest first.

    Complete in all parameters that are decided.
    """
    n_rows = facts["rows"]
    batch_size, max_epochs, n_members = next(plan for limit, plan in PLANS if n_rows <= limit)
    is_large = n_rows > MANY_ROWS
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
        "kernel_scale": 1.0,
        "kernel_ridge": 0.05,
    }
    if is_large:
        table = [(f"mlp, {name}", parameters, why, 1.0) for name, parameters, why in OF_MANY_ROWS]
    else:
        table = [*OF_FEWER_ROWS]
    if n_rows <= MAX_KERNEL_ROWS:
        table += [
            (f"kernel, {name}", {**KERNEL, **parameters}, why, 0.5)
            for name, parameters, why in KERNELS
        ]
    sparse = facts["zeros among the features"] > 0.5
    return [
        Option(name, {**common, **parameters}, why, complexity)
        for name, parameters, why, complexity in table
        if not (sparse and parameters["scaling"] == "power")
    ]
