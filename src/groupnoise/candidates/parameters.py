"""CandidateParameters: the parameters of learning from candidate labels, with plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groupnoise.core.docstrings import inherit_docstring
from groupnoise.training.parameters import FeatureParameters

PAPER: dict[str, Any] = {
    "encoder": "linear",
    "scaling": "l2",
    "normalize": "targets",
    "candidates": "full",
    "selection": "max",
    "weighting_strength": 1.0,
    "max_epochs": 50,
    "schedule": "constant",
    "keep": "best",
    "n_members": 1,
}
"""The paper's settings: linear g, Eq. 5 over instances, max selection, lambda 1."""

DETAILS = {"dropout": 0.5, "kernel_scale": 1.0, "kernel_ridge": 0.05, "answer_temperature": 1.0}
"""Parameters that are decided beside others; alone they are worth no search."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class CandidateParameters(FeatureParameters):
    """Parameters of one setting; subclasses may have other defaults.

    Parameters
    ----------
    encoder : {"linear", "mlp", "kernel"} or nn.Module, default="mlp"
        g. "linear" is the paper's. "kernel" is a Gaussian kernel between rows that is solved in
        closed form: no steps, one member; it keeps up to 4000 training rows.
    kernel_scale : float, default=1.0
        Width of "kernel" in units of the mean distance between rows.
    kernel_ridge : float, default=0.05
        Strength of the ridge penalty of "kernel".
    normalize : {"both", "objects", "targets"}, default="both"
        Over labels ("objects"), as an ordinary classifier does; over instances ("targets"), as
        the paper's Eq. 5 reads when labels are the objects; or the mean of both, which keeps a
        label from winning only because it is a candidate of many rows.
    candidates : {"in_batch", "full", "sampled"}, default="in_batch"
        The instances normalized over under "targets" and "both".
    n_negatives : int, default=1024
        Number of instances that "sampled" draws.
    ordinal_smoothing : float, default=0.0
        For labels in an order, such as ages: over how many neighbours in `classes_` answers are
        averaged, as the standard deviation of a Gaussian. 0 takes labels as names.
    answer_temperature : float, default=1.0
        What logits are divided by in answers: above 1 a model sounds less sure beside others.
    """

    kernel_scale: float = 1.0
    kernel_ridge: float = 0.05
    normalize: str = "both"
    candidates: str = "in_batch"
    n_negatives: int = 1024
    ordinal_smoothing: float = 0.0
    answer_temperature: float = 1.0
