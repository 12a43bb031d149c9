"""Objectives, selections and weightings by name, for estimators, configs and the command line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from groupnoise._checks import check_choice
from groupnoise.exceptions import ParameterError
from groupnoise.matching import Dot, NegativeKL, Similarity
from groupnoise.objectives._group_weighting import ContrastiveWeighting, SigmoidWeighting, Weighting
from groupnoise.objectives._selection import All, Marginal, Max, Selection, Tempered, TopK

NAMED_OBJECTIVES: dict[str, dict[str, str | float]] = {
    "pairwise": {"selection": "all", "weighting_strength": 0.0},
    "matching": {"selection": "all", "weighting_strength": 1.0},
    "maximizing": {"selection": "max", "weighting_strength": 0.0},
    "max_matching": {"selection": "max", "weighting_strength": 1.0},
}
"""The paper's ablation: four values of (selection, weighting strength)."""


def named_objective(name: str) -> dict[str, str | float]:
    """Return the estimator parameters that make one of the paper's four objectives."""
    check_choice("objective", name, NAMED_OBJECTIVES)
    return dict(NAMED_OBJECTIVES[name])


def make_selection(
    name: str | Selection, *, temperature: float | Sequence[float] = (1.0, 0.3), k: int = 2
) -> Selection:
    """Return a selection by name; an object that already is one passes through.

    Parameters
    ----------
    name : {"max", "marginal", "tempered", "top_k", "all"} or Selection
        Which selection.
    temperature : float or pair of float
        For "tempered": constant, or from the first value to the second over the training.
    k : int
        For "top_k".
    """
    if callable(name):
        return name
    check_choice("selection", name, ("max", "marginal", "tempered", "top_k", "all"))
    if name == "tempered":
        path = np.asarray(temperature)
        if path.shape not in ((), (2,)) or path.dtype.kind not in "iuf":
            raise ParameterError(
                f"temperature must be a number or a (start, end) pair; got {temperature!r}."
            )
        start, end = np.broadcast_to(path, 2).astype(np.float64).tolist()
        return Tempered(start, end)
    if name == "top_k":
        return TopK(k)
    plain: dict[str, Selection] = {"max": Max(), "marginal": Marginal(), "all": All()}
    return plain[name]


def make_weighting(
    form: str | Weighting | None, *, similarity: str | Similarity = "dot", scale: float = 1.0
) -> Weighting | None:
    """Return a group weighting by name; None, or an object that is one, passes through.

    Parameters
    ----------
    form : {"sigmoid", "contrastive"}, Weighting or None
        The paper's form, or that of the authors' code.
    similarity : {"dot", "neg_kl"} or Similarity
        S of Eq. 5.
    scale : float
        Multiplies S where it is given by name; an object has a scale of its own.
    """
    if form is None or not isinstance(form, str):
        return form
    check_choice("weighting", form, ("sigmoid", "contrastive"))
    if isinstance(similarity, str):
        check_choice("similarity", similarity, ("dot", "neg_kl"))
        similarity = Dot(scale) if similarity == "dot" else NegativeKL(scale)
    if form == "sigmoid":
        return SigmoidWeighting(similarity)
    return ContrastiveWeighting(similarity)
