"""Parameters that estimators share: of the objective, of the training, and of features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from groupnoise.core.arrays import ProgressCallback, RandomState
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.objective import All, Marginal, Max, Selection, Tempered, TopK
from groupnoise.core.pair_matching import PerObjectWeighting
from groupnoise.core.prior_weights import ClassWeight
from groupnoise.core.weighting import (
    ContrastiveWeighting,
    Dot,
    NegativeKL,
    SigmoidWeighting,
    Similarity,
    Weighting,
)
from groupnoise.core.words import counted, inherit_docstring
from groupnoise.io.folders.model_files import pack_parameters, unpack_parameters

WEIGHTS = "model."
OWN_ENCODER = "<own module>"
PARTS = (
    All,
    ContrastiveWeighting,
    Dot,
    Marginal,
    Max,
    NegativeKL,
    PerObjectWeighting,
    SigmoidWeighting,
    Tempered,
    TopK,
)
"""Objects a parameter may be; only these are made again when a model is read."""
SCHEDULES = ("constant", "cosine", "linear")
KEPT_WEIGHTS = ("best", "last")
PAPER_TRAINING: dict[str, Any] = {
    "selection": "max",
    "weighting_strength": 1.0,
    "max_epochs": 50,
    "schedule": "constant",
    "keep": "best",
    "n_members": 1,
}
"""What the paper's settings of bags and of candidate labels share: hard max, lambda 1."""


@dataclass(kw_only=True, eq=False, repr=False)
class MatchingParameters:
    """The objective and its training; subclasses have other defaults.

    Parameters
    ----------
    selection : {"max", "marginal", "tempered", "top_k", "all"} or Selection, default="tempered"
        How the score of a group comes from those of its objects; "max" is the paper's.
    temperature : float, (start, end) or "auto", default=(1.0, 0.3)
        Of "tempered" selection, or where it starts and ends; "auto" is chosen on held-out groups.
    top_k : int, default=2
        Objects that "top_k" selection averages.
    weighting : {"sigmoid", "contrastive"}, Weighting or None, default="sigmoid"
        Group weighting: the paper's, that of the authors' code, or none.
    weighting_strength : float or "auto", default=1.0
        Lambda, which multiplies the log weights; "auto" is chosen on held-out groups.
    similarity : {"dot", "neg_kl"} or Similarity, default="dot"
        S of the group weighting.
    similarity_scale : float, default=1.0
        What similarities are multiplied by.
    max_epochs : int, default=60
        Passes over the data.
    batch_size : int, default=64
        Groups per step.
    learning_rate : float, default=0.01
        Adam's step size.
    weight_decay : float, default=0.0
        Decoupled weight decay: weights shrink by learning_rate * weight_decay each step.
    schedule : {"constant", "cosine", "linear"}, default="cosine"
        Path of the learning rate; all but "constant" end at zero.
    patience : int or None, default=None
        Stop after this many epochs without a better validation value.
    n_members : int, default=1
        Number of models in the ensemble, from different initial weights. Their probabilities are
        averaged. An encoder of your own has one set of initial weights, so it takes one member.
    device : str, default="auto"
        Where the training runs: "cpu", "cuda", "cuda:1", "mps"; "auto" takes a CUDA device where
        there is one. Fitted models lie in the memory of the CPU, and answer there.
    on_epoch : callable or None, default=None
        Called with a record after each epoch.
    random_state : int, generator or None, default=None
        Decides all randomness.
    """

    selection: str | Selection = "tempered"
    temperature: float | Sequence[float] | str = (1.0, 0.3)
    top_k: int = 2
    weighting: str | Weighting | None = "sigmoid"
    weighting_strength: float | str = 1.0
    similarity: str | Similarity = "dot"
    similarity_scale: float = 1.0
    max_epochs: Any = 60
    batch_size: Any = 64
    learning_rate: Any = 1e-2
    weight_decay: Any = 0.0
    schedule: str = "cosine"
    patience: int | None = None
    n_members: Any = 1
    device: str = "auto"
    on_epoch: ProgressCallback | None = None
    random_state: RandomState = None


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class FeatureParameters(MatchingParameters):
    """Those of classifiers, which encode rows of features.

    Parameters
    ----------
    encoder : {"identity", "linear", "mlp"} or nn.Module, default="mlp"
        Of the features. A module of your own maps (n, ...) to (n, dim).
    hidden : int or sequence of int, default=(300,)
        Hidden widths of "mlp".
    dim : int, default=64
        Width of the vectors; "identity" takes that of the features.
    dropout : float, default=0.5
        Dropout of "mlp".
    scaling : {"standard", "l2", "power", "rms", "none"}, default="standard"
        Scaling of the features, learned from the training data.
    class_weight : "balanced", mapping of label to weight, or None, default=None
        How much the groups of each class count; a group counts as the mean of its labels.
    keep : {"best", "last"}, default="last"
        Weights to end with where there is a validation value.
    mixed_precision : bool, default=False
        Run the encoder in bfloat16 where the processor computes in it; float32 elsewhere.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Width of the rows.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `fit` was given data frames with names; answers are given for
        the same columns in the same order only.
    members_ : ModuleList of MatchingModel
        The trained encoders of each member; `model_` is the first.
    history_ : History
        One record per epoch, with the number of the member where there are several.
    """

    encoder: str | nn.Module = "mlp"
    hidden: Any = (300,)
    dim: Any = 64
    dropout: Any = 0.5
    scaling: str = "standard"
    class_weight: ClassWeight = None
    keep: str = "last"
    mixed_precision: bool = False


def saved_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator as its model folder holds them."""
    kept = {**parameters}
    if isinstance(kept.get("encoder"), nn.Module):
        kept["encoder"] = OWN_ENCODER  # its weights are kept, its code is the user's
    return pack_parameters(kept, parts=PARTS)


def read_parameters(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return what :func:`saved_parameters` kept."""
    return unpack_parameters(saved, parts=PARTS)


def saved_weights(model: nn.Module) -> dict[str, NDArray[Any]]:
    """Return the weights of a model, each by one name even if two modules share it."""
    second = _second_names(model)
    return {
        WEIGHTS + name: tensor.numpy()
        for name, tensor in model.state_dict().items()
        if name not in second
    }


def load_weights(model: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put back what :func:`saved_weights` returned; arrays that are no weights are left aside.

    Tensors of the model may be on the meta device, without memory. Raises RuntimeError if one is
    missing, is too many or has another shape.
    """
    types = {name: tensor.dtype for name, tensor in model.state_dict().items()}
    state = {}
    for label, array in arrays.items():
        name = label.removeprefix(WEIGHTS)
        if name != label:
            state[name] = torch.tensor(array, dtype=types.get(name))
    for name, first in _second_names(model).items():
        if first in state:
            state[name] = state[first]
    model.load_state_dict(state, assign=True)


def _second_names(model: nn.Module) -> dict[str, str]:
    """Return each further name of a tensor that modules share, with its first one."""
    tensors = model.state_dict(keep_vars=True)  # the tensors themselves, so that `is` tells
    first: dict[int, str] = {}
    names = {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}
    return {name: before for name, before in names.items() if name != before}


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The numbers that decide a training run.

    `max_epochs`: passes over the data.
    `batch_size`: groups per step.
    `learning_rate`: Adam step size; the paper searches 1e-1 to 1e-4.
    `weight_decay`: decoupled weight decay: weights shrink by learning_rate * weight_decay each
        step.
    `schedule`: path of the learning rate over the training; all but "constant" end at zero.
    `patience`: stop after this many epochs without a better validation value; None never stops
        early.
    `keep` (one of "best", "last"): weights to end with where there is a validation value. A
        schedule that ends at zero is best left at its end: the epoch that looks best on few rows is
        mostly a lucky one.
    `shuffle_pool`: for groups on disk that do not fit in memory: how many are mixed at a time, see
        :func:`groupnoise.core.batching.pooled_batch_rows`; a million is a good number. None mixes
        all, which takes 32 bytes of memory for each.
    `max_objects`: objects that are held at a time, padding included: a step on more is made in
        parts whose gradients are added. None takes every batch whole.
    """

    max_epochs: int = 50
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "constant"
    patience: int | None = None
    keep: str = "best"
    shuffle_pool: int | None = None
    max_objects: int | None = None

    def __post_init__(self) -> None:
        check_count("max_epochs", self.max_epochs)
        check_count("batch_size", self.batch_size)
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, allow_zero=True)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("keep", self.keep, KEPT_WEIGHTS)
        if self.patience is not None:
            check_count("patience", self.patience)
        if self.shuffle_pool is not None:
            check_count("shuffle_pool", self.shuffle_pool)
        if self.max_objects is not None:
            check_count("max_objects", self.max_objects)

    def rate_at(self, progress: float) -> float:
        """Return the learning rate after a fraction `progress` of the training."""
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))
        if self.schedule == "linear":
            return self.learning_rate * (1.0 - progress)
        return self.learning_rate


class History:
    """Records of a training run, one dictionary per epoch.

    `records`: one record per epoch; empty at the beginning.

    >>> history = History()
    >>> history.append({"epoch": 1, "loss": 0.7})
    >>> history.append({"epoch": 2, "loss": 0.5})
    >>> history.column("loss")
    [0.7, 0.5]
    """

    def __init__(self, records: list[dict[str, Any]] | None = None) -> None:
        self.records = list(records or [])
        self.best_epoch: int | None = None

    def append(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch."""
        self.records.append(record)

    def column(self, name: str) -> list[Any]:
        """Return one value per epoch, None where it was not recorded."""
        return [record.get(name) for record in self.records]

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the table by columns, as polars.DataFrame and pandas.DataFrame take it."""
        names = dict.fromkeys(name for record in self.records for name in record)
        return {name: self.column(name) for name in names}

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    def __repr__(self) -> str:
        last = self.records[-1] if self.records else {}
        return f"History({counted(len(self), 'epochs')}, last {last})"
