"""Weights known before training: of classes, of candidates, and of neighbouring ordinal labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_features, check_positive
from groupnoise.exceptions import DataError, ParameterError

ClassWeight = str | Mapping[Any, float] | None


def group_weights(
    class_weight: ClassWeight, indicator: BoolArray, classes: NDArray[Any]
) -> Tensor | None:
    """Return the weight of each group, or None if all count alike.

    `class_weight`: "balanced" makes every class count alike, however many groups it has. A label
    that a mapping leaves out weighs one. `indicator` (n_groups, n_classes): the classes a group may
    belong to. A group of several is spread evenly over them, both when classes are counted and when
    its own weight is taken; one of none weighs one.
    """
    if class_weight is None:
        return None
    membership = indicator / np.maximum(indicator.sum(axis=1, keepdims=True), 1)
    weights = membership @ _per_class(class_weight, membership, classes)
    weights[~indicator.any(axis=1)] = 1.0
    return torch.from_numpy(weights.astype(np.float32))


def _per_class(
    class_weight: str | Mapping[Any, float], membership: FloatArray, classes: NDArray[Any]
) -> FloatArray:
    if isinstance(class_weight, Mapping):
        known = classes.tolist()
        unknown = [label for label in class_weight if label not in known]
        if unknown:
            raise ParameterError(
                f"class_weight holds {unknown[0]!r}, which is not one of the {len(known)} classes."
            )
        for weight in class_weight.values():
            check_positive("class_weight", weight, allow_zero=True)
        return np.array([float(class_weight.get(label, 1.0)) for label in known])
    if class_weight != "balanced":
        raise ParameterError(
            "class_weight must be 'balanced', a mapping of labels to weights or None; "
            f"got {class_weight!r}."
        )
    counts = membership.sum(axis=0)
    # A class that no group may have weighs nothing and would divide by zero.
    present = counts > 0
    balanced = len(membership) / (present.sum() * np.where(present, counts, 1.0))
    return np.where(present, balanced, 0.0)


def log_candidate_weights(weights: ArrayLike, indicator: BoolArray) -> Tensor:
    """Return the log of the trust in each candidate, shape (n_rows, n_classes).

    Weights must be positive at every candidate; what stands elsewhere is not read.
    """
    table = check_features("candidate_weights", weights)
    if table.shape != indicator.shape:
        raise DataError(
            f"candidate_weights has shape {table.shape}, but the candidates have "
            f"{indicator.shape}; give one weight per row and class."
        )
    refused = np.argwhere(indicator & (table <= 0))
    if len(refused):
        raise DataError(
            f"candidate_weights must be positive at every candidate; row {refused[0][0]} holds "
            f"{table[tuple(refused[0])]!s}."
        )
    return torch.from_numpy(np.log(np.where(indicator, table, 1.0)).astype(np.float32))


def integer_labels(classes: NDArray[Any]) -> IntArray | None:
    """Return labels as integers, None if some are not.

    >>> integer_labels(np.array(["0", "1", "10", "2"])).tolist()
    [0, 1, 10, 2]
    """
    if classes.dtype.kind not in "iuUO":
        return None
    try:
        return np.array([int(str(label)) for label in classes.tolist()], dtype=np.int64)
    except (ValueError, OverflowError):
        return None


def smooth_over_neighbours(
    log_probabilities: Tensor, std: float, classes: NDArray[Any] | None = None
) -> Tensor:
    """Smooth probabilities (n_rows, n_labels) of ordinal labels by a Gaussian; in and out as logs.

    `std`: standard deviation of the Gaussian, in labels; 0 changes nothing. `classes`: if they are
    integers, also as text, these give the order; otherwise the columns do.
    """
    if std == 0.0:
        return log_probabilities
    numbers = None if classes is None else integer_labels(classes)
    if numbers is not None and (np.diff(numbers) < 0).any():
        order = torch.from_numpy(np.argsort(numbers, kind="stable")).to(log_probabilities.device)
        return smooth_over_neighbours(log_probabilities[:, order], std)[:, order.argsort()]
    position = torch.arange(
        log_probabilities.shape[-1], dtype=log_probabilities.dtype, device=log_probabilities.device
    )
    distance = (position.unsqueeze(-1) - position) / std
    # Column by column, so that the first and last label do not lose for having one side only.
    weights = (-0.5 * distance.square()).softmax(0)
    averaged = log_probabilities.exp() @ weights
    return averaged.clamp_min(torch.finfo(averaged.dtype).tiny).log().log_softmax(-1)
