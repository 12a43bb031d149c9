"""CandidateParameters: the parameters of learning from candidate labels, with plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from groupnoise.core.arrays import ProgressCallback, RandomState
from groupnoise.core.prior_weights import ClassWeight
from groupnoise.core.selection import Selection
from groupnoise.core.similarity import Similarity
from groupnoise.core.weighting import Weighting

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


@dataclass(kw_only=True, eq=False, repr=False)
class CandidateParameters:
    """Parameters of one setting; subclasses may have other defaults.

    Parameters
    ----------
    encoder : {"linear", "mlp", "kernel"} or nn.Module, default="mlp"
        g. "linear" is the paper's. "kernel" is a Gaussian kernel between rows that is solved in
        closed form: no steps, one member; it keeps up to 4000 training rows.
    hidden : int or sequence of int, default=(300,)
        Hidden widths of "mlp".
    dim : int, default=64
        Width of the vectors.
    dropout : float, default=0.5
        Dropout of "mlp".
    kernel_scale : float, default=1.0
        Width of "kernel" in units of the mean distance between rows.
    kernel_ridge : float, default=0.05
        Strength of the ridge penalty of "kernel".
    scaling : {"standard", "l2", "power", "none"}, default="standard"
        Scaling of the features, learned from the training rows.
    normalize : {"both", "objects", "targets"}, default="both"
        Over labels ("objects"), as an ordinary classifier does; over instances ("targets"), as
        the paper's Eq. 5 reads when labels are the objects; or the mean of both, which keeps a
        label from winning only because it is a candidate of many rows.
    candidates : {"in_batch", "full", "sampled"}, default="in_batch"
        The instances normalized over under "targets" and "both".
    n_negatives : int, default=1024
        Number of instances that "sampled" draws.
    selection : str or Selection, default="tempered"
        How a row's score comes from its candidates; see :func:`groupnoise.core.make_selection`.
    temperature : float, (start, end) or "auto", default=(1.0, 0.3)
        Of tempered selection; "auto" is chosen on held-out rows.
    top_k : int, default=2
        Candidates that "top_k" selection averages.
    weighting : str, Weighting or None, default="sigmoid"
        Group weighting; see :func:`groupnoise.core.make_weighting`.
    weighting_strength : float or "auto", default=1.0
        Lambda; "auto" is chosen on held-out rows.
    similarity : str or Similarity, default="dot"
        S of the group weighting.
    similarity_scale : float, default=1.0
        What similarities are multiplied by.
    class_weight : "balanced", mapping of label to weight, or None, default=None
        How much the rows of each class count; a row counts as the mean of its candidates.
    max_epochs : int, default=60
        Passes over the data.
    batch_size : int, default=64
        Rows per step.
    learning_rate : float, default=0.01
        Adam's step size.
    weight_decay : float, default=0.0
        Decoupled weight decay: weights shrink by learning_rate * weight_decay each step.
    schedule : {"constant", "cosine", "linear"}, default="cosine"
        Path of the learning rate.
    patience : int or None, default=None
        Stop after this many epochs without a better validation value.
    keep : {"best", "last"}, default="last"
        Weights to end with where there is a validation value.
    ordinal_smoothing : float, default=0.0
        For labels in an order, such as ages: over how many neighbours in `classes_` answers are
        averaged, as the standard deviation of a Gaussian. 0 takes labels as names.
    answer_temperature : float, default=1.0
        What logits are divided by in answers: above 1 a model sounds less sure beside others.
    n_members : int, default=1
        Number of models in the ensemble. Their probabilities are averaged. An encoder of your
        own has one set of initial weights, so it takes one member.
    mixed_precision : bool, default=False
        Run the encoder in bfloat16 where the processor computes in it; float32 elsewhere.
    device : str, default="auto"
        Where the training runs: "cpu", "cuda", "cuda:1", "mps"; "auto" takes a CUDA device where
        there is one. Fitted models lie in the memory of the CPU, and answer there.
    on_epoch : callable or None, default=None
        Called with a record after each epoch.
    random_state : int, generator or None, default=None
        Decides all randomness.
    """

    encoder: str | nn.Module = "mlp"
    hidden: int | Sequence[int] = (300,)
    dim: int = 64
    dropout: float = 0.5
    kernel_scale: float = 1.0
    kernel_ridge: float = 0.05
    scaling: str = "standard"
    normalize: str = "both"
    candidates: str = "in_batch"
    n_negatives: int = 1024
    selection: str | Selection = "tempered"
    temperature: float | Sequence[float] | str = (1.0, 0.3)
    top_k: int = 2
    weighting: str | Weighting | None = "sigmoid"
    weighting_strength: float | str = 1.0
    similarity: str | Similarity = "dot"
    similarity_scale: float = 1.0
    class_weight: ClassWeight = None
    max_epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    schedule: str = "cosine"
    patience: int | None = None
    keep: str = "last"
    ordinal_smoothing: float = 0.0
    answer_temperature: float = 1.0
    n_members: int = 1
    mixed_precision: bool = False
    device: str = "auto"
    on_epoch: ProgressCallback | None = None
    random_state: RandomState = None
