"""MaxMatchingPartialLabelClassifier: candidate labels in, one label out, settings decided."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from groupnoise.candidates.averaging import AveragedModel, WeightedSettings
from groupnoise.candidates.model import CandidateModel, read_rows
from groupnoise.candidates.prediction import (
    DECIDED,
    DETAILS,
    PAPER,
    TRADE_OFF,
    explicit_values,
    plain_values,
    resolved_values,
)
from groupnoise.candidates.search import decide_settings, without_search
from groupnoise.candidates.trials import HeldOutTrials
from groupnoise.core.device import find_device
from groupnoise.core.scaling import Scaler, remember_columns
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.halving import TRIALS_FILE
from groupnoise.decisions.portfolio import AUTO, is_auto
from groupnoise.training.calibration import fit_set_calibration, unreliable_sets_warning
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.saver import exclusive_training
from groupnoise.training.workers import Workers

if TYPE_CHECKING:
    from typing_extensions import Self


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class MaxMatchingPartialLabelClassifier(AveragedModel):
    """Classify instances after learning from sets of candidate labels.

    Objects are candidate labels, targets are instances; f is a vector per label, g the encoder of
    the features, h = f and S the dot product (the paper's Table 1, second row). What is "auto"
    is decided in `fit`: settings of a short portfolio are compared on held-out rows, without any
    true label, and those near the best are averaged. :meth:`fixed` decides nothing.

    Parameters
    ----------
    encoder : "auto", a name or nn.Module, default="auto"
        g. "linear" is the paper's, "mlp" a perceptron; "kernel" is a Gaussian kernel between rows,
        which keeps up to 4000 training rows; "trees" is a forest that is grown on the candidates,
        "random trees" one whose thresholds are drawn. With a module of your own nothing is
        searched for.
    temperature : "auto", float or (start, end), default="auto"
        Of tempered selection.
    weighting_strength : "auto" or float, default="auto"
        Lambda.
    answer_temperature : "auto" or float, default="auto"
        What logits are divided by in answers, found for each setting on held-out rows, so that
        none drowns the others in the average because it sounds surer, and by a common factor
        for all, so that the average is as sure as it may be.
    label_offsets : "auto", sequence of float or None, default="auto"
        What is added to the logarithm of the answer of each of `classes_`. Found for each setting
        on held-out rows, where its answers are far from how frequent labels are.
    n_members : "auto" or int, default="auto"
        Number of models of each setting that is taken. All their probabilities are averaged.
    ensemble : sequence of (weight, parameters) or None, default=None
        Settings to be averaged, each laid over the other parameters, instead of a search:
        `decisions_.members` of an earlier fit, for example.
    budget : "auto", float, str or None, default="auto"
        Time the search may take: seconds, or a text such as "90s" or "2m"; None sets no limit.
        The final training comes on top. "auto" is a safety of ten minutes, which the search
        hardly ever needs, so that the clock decides nothing.

    Attributes
    ----------
    decisions_ : Decisions
        What was tried, what it scored, what was taken and why.
    settings_ : WeightedSettings
        Weight and fitted model of each setting taken; empty where all parameters were explicit.
    history_ : History
        One record per epoch, with the number of the setting and of the member.

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1, 2], 40)
    >>> X = np.eye(3)[truth] + 0.2 * generator.normal(size=(120, 3))
    >>> candidates = [{"abc"[y], "abc"[generator.integers(3)]} for y in truth]
    >>> model = MaxMatchingPartialLabelClassifier(max_epochs=20, random_state=0)
    >>> model.fit(X, candidates).predict(np.eye(3)).tolist()
    ['a', 'b', 'c']
    >>> round(sum(weight for weight, _ in model.decisions_.members), 6)
    1.0
    """

    encoder: Any = AUTO
    hidden: Any = AUTO
    dropout: Any = AUTO
    kernel_scale: Any = AUTO
    kernel_ridge: Any = AUTO
    scaling: str = AUTO
    normalize: str = AUTO
    temperature: float | Sequence[float] | str = AUTO
    weighting_strength: float | str = AUTO
    max_epochs: Any = AUTO
    batch_size: Any = AUTO
    learning_rate: Any = AUTO
    weight_decay: Any = AUTO
    ordinal_smoothing: Any = AUTO
    answer_temperature: Any = AUTO
    label_offsets: Any = AUTO
    n_members: Any = AUTO
    ensemble: Sequence[tuple[float, Mapping[str, Any]]] | None = None
    budget: str | float | None = AUTO

    @classmethod
    def fixed(cls, **overrides: Any) -> Self:
        """Return a classifier that searches for nothing: every parameter has a plain value.

        Parameters
        ----------
        **overrides
            Parameters that shall differ from the plain values.

        Returns
        -------
        MaxMatchingPartialLabelClassifier
            With one perceptron of 300 units on standardized features.
        """
        return cls(**{**plain_values(), **overrides})

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return the paper's settings: linear g, Eq. 5 over instances, max selection, lambda 1.

        Every parameter stands beside the paper's in docs/paper_settings.md.

        Returns
        -------
        MaxMatchingPartialLabelClassifier
            With nothing left to decide.
        """
        return cls.fixed(**{**PAPER, **overrides})

    def fit(
        self,
        X: ArrayLike,
        y: Any,
        *,
        candidate_weights: ArrayLike | None = None,
        truth: Any = None,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> Self:
        """Learn from rows and their candidate labels, after deciding what is "auto".

        Parameters
        ----------
        validate : callable, default=None
            Called with the model in training after each epoch; the best epoch's weights are kept.
        workers : Workers, default=None
            The processes that share this training; by default this one trains alone. With
            several nothing is searched for.
        checkpoint : Checkpoints, default=None
            Where the search and the training save themselves, and resume after an interruption.
        """
        undecided = {name for name in DECIDED if is_auto(getattr(self, name))}
        if self.ensemble is None and undecided <= TRADE_OFF | set(DETAILS):
            self.settings_ = WeightedSettings()
            super().fit(
                X,
                y,
                candidate_weights=candidate_weights,
                truth=truth,
                validate=validate,
                workers=workers,
                checkpoint=checkpoint,
            )
            self.decisions_ = without_search("explicit", {}, "All parameters were given.")
            return self
        given = resolved_values(self)
        CandidateModel(**given)._check_parameters()
        find_device(self.device)  # also where no network is taken
        rows, indicator, classes, candidate_weights = read_rows(X, y, candidate_weights, truth)
        seed = self._seed()
        with exclusive_training(checkpoint, workers or Workers()):
            trials = HeldOutTrials(
                rows, indicator, classes, candidate_weights, given, seed, explicit_values(self)
            )
            decisions = decide_settings(self, trials, workers, checkpoint)
            held = trials.average(decisions)
            self.set_calibration_ = held and fit_set_calibration(*held)
            doubt = held and unreliable_sets_warning(*held)
            if doubt is not None:
                decisions = replace(decisions, warnings=(*decisions.warnings, doubt))
            self.decisions_ = decisions
            for sentence in decisions.warnings:
                warnings.warn(sentence, UserWarning, stacklevel=2)
            remember_columns(self, [X])
            self.classes_, self.calibration_temperature_ = classes, 1.0
            self.calibration_groups_ = 0
            fitted: list[tuple[float, CandidateModel]] = []
            scalers: dict[str, Scaler] = {}
            for number, (weight, parameters) in enumerate(self.decisions_.members):
                settings = {**given, **parameters, "random_state": seed + number}
                model = CandidateModel(**settings)
                fitted.append((weight, model))
                model._fit_rows(
                    rows,
                    indicator,
                    classes,
                    candidate_weights,
                    validate=validate,
                    workers=workers,
                    checkpoint=checkpoint and checkpoint.member(number + 1),
                    scaler=scalers.get(model.scaling),
                )
                scalers[model.scaling] = model.scaler_
            if checkpoint is not None:
                (checkpoint.folder / TRIALS_FILE).unlink(missing_ok=True)
        self.settings_ = WeightedSettings(fitted)
        self.members_, self.history_ = self.settings_.members(), self.settings_.history()
        self.model_ = self._models()[0]
        return self

    def decided(self) -> Self:
        """Return an unfitted copy that repeats the decisions of this fit without the search.

        Returns
        -------
        MaxMatchingPartialLabelClassifier
            For cross-validation on the same data, for example.
        """
        check_is_fitted(self, "model_")
        copy: Self = clone(self)
        return copy.set_params(ensemble=self.decisions_.members) if self.settings_ else copy

    def _seed(self) -> int:
        """Return the seed of the first setting; the others count on from it."""
        if isinstance(self.random_state, (int, np.integer)):
            self._generator()  # refuses what is no seed
            return int(self.random_state)
        return int(self._generator().integers(2**31))
