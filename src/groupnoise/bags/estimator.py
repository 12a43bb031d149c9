"""MaxMatchingMILClassifier: bags with labels in, labels of single instances out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from groupnoise.bags.calibration import BagCalibration
from groupnoise.bags.reading.inputs import (
    add_known_instances,
    as_bags,
    read_bag_labels,
    read_instance_labels,
    warn_about_ungrouped_rows,
)
from groupnoise.bags.reading.negative_label import find_negative_label
from groupnoise.bags.search.decide import SearchRequest
from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.bags.search.members import LIKELIHOODS
from groupnoise.bags.streaming import decide_from_memory_or_disk
from groupnoise.bags.training_loop import LOOP_DEFAULTS, SEARCH_PARAMETERS, BagLoop
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.checks import (
    check_choice,
    check_count,
    check_dropout,
    check_group_ids,
    check_positive,
)
from groupnoise.core.device import training_on
from groupnoise.core.groups import Groups
from groupnoise.core.objective import GroupObjective, Marginal, Selection
from groupnoise.core.scaling import SCALINGS, Scaler, feature_tables, remember_columns
from groupnoise.core.weighting import Similarity
from groupnoise.core.words import counted, inherit_docstring
from groupnoise.decisions.portfolio import is_auto, parse_budget
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.parameters import PAPER_TRAINING, History
from groupnoise.training.saver import FitSaves, exclusive_training, search_context
from groupnoise.training.workers import Workers

AUTO_BUDGET = 600.0


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class MaxMatchingMILClassifier(BagCalibration, BagLoop):
    """Classify single instances after learning from labelled bags.

    `fit` decides by itself what depends on the data: it compares small models under several
    likelihoods of bags on bags held out, and averages those that predict them best
    (`decisions_`); bags may be answered by models of whole bags too. Where a label is negative
    `predict` seeks balanced accuracy, of which it gives up to a point, as estimated, for more
    right answers. Parameters that are given narrow what is compared. A parameter of the paper's
    training loop (a selection, a temperature, epochs, a step size, ...) asks for that loop
    instead: objects are instances, targets are bag labels, f is the encoder, g a vector per
    class, h the class probabilities and S the negative KL divergence (the paper's Table 1, first
    row), and what is left open takes the value of :meth:`fixed`.

    scikit-learn cuts bags where they come as a list of arrays with a label each:
    ``cross_val_score(model, bags, labels)`` scores bags. Of flat rows it hands `groups` to the
    splitter alone, so that each row would be a bag and its answer be held against a label of bags.

    Parameters
    ----------
    likelihood : str, default="auto"
        How instances make up a bag: "noisy_or" (some instance has a present label, none an
        absent one), "max", "soft_max", "odds", "average" (see
        `groupnoise.core.quantifier`), "mixture" (a learned share of the instances of a positive
        bag is positive), "inherited" (all instances have a label of their bag),
        "label_set" (exact likelihood of the set of labels) or "matching" (the paper's).
    negative_label : label or None, default="auto"
        The class of bags in which *every* instance is negative. "auto" recognises it by name
        (0 beside 1, "no" beside "yes", "negative", "control", ...), and of two classes without
        such names asks held-out bags; None says that there is none.
    encoder : str or nn.Module, default="auto"
        f. "identity" makes the classifier linear, as in the paper; "linear" and "mlp" are networks;
        "trees" and "random trees" are forests of positive and negative bags in which each instance
        has the label of its bag. A module of your own maps (n, ...) to (n, dim).
    normalize : {"auto", "both", "targets"}, default="auto"
        Over classes ("targets"), as the paper's Eq. 5 reads; or the mean of that and of the
        normalization over the instances of a batch, which keeps a common kind of instance from
        standing for every class.
    background : bool, default="auto"
        Whether instances may match a background target that no bag is asked for.
    background_label : label, optional
        For the training loop: a class of `y` that instances of any bag may have; the
        absent-class term never counts it as absent.
    absent_strength : float, default="auto"
        Strength of the absent-class term; needs bags that list all their labels.
    similarity : {"neg_kl", "dot"} or Similarity, default="neg_kl"
        What the weighting compares instances by.
    class_weight : "balanced", mapping of label to weight, or None, default=None
        How much the bags of each class count, in the training loop.
    weight_decay : float, default="auto"
        Of the search, half of it times the squared weights is added to the mean loss; of the
        training loop, decoupled from the gradient.
    keep : {"last", "best"}, default="last"
        Which epoch of the training loop is kept.
    ensemble : sequence of (float, mapping), optional
        Weight and parameters of each member, as in `decisions_.members`: repeats what was
        decided without the search.
    budget : float or str, default="auto"
        Time the search may take: seconds, "90s", "2m"; "auto" is ten minutes, which small data
        do not need.
    on_epoch : callable or None, default=None
        Called with a record after each epoch, or after each trial of the search.

    Attributes
    ----------
    negative_label_ : label or None
        The class taken as negative.
    decisions_ : Decisions
        Facts of the data, what was tried, what it scored, what was taken and why.
    history_ : History
        One record per epoch of the training loop, with the number of the member where there are
        several; empty after a search.
    calibration_temperature_ : float
        What logits are divided by: 1 until :meth:`calibrate` finds something better.

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> bags = [generator.normal([c, [5.0, 5.0]], 0.1) for c in [[0.0, 1.0], [1.0, 0.0]] * 8]
    >>> model = MaxMatchingMILClassifier(random_state=0)
    >>> model.fit(bags, ["a", "b"] * 8).predict([[0.0, 1.0], [1.0, 0.0]]).tolist()
    ['a', 'b']
    """

    likelihood: str = "auto"
    negative_label: Any = "auto"
    encoder: str | nn.Module = "auto"
    hidden: int | Sequence[int] | str = "auto"
    dim: int | str = "auto"
    dropout: float | str = "auto"
    scaling: str = "auto"
    normalize: str = "auto"
    background: bool | str = "auto"
    background_label: Any = None
    absent_strength: float | str = "auto"
    selection: str | Selection = "auto"
    temperature: float | Sequence[float] | str = "auto"
    weighting_strength: float | str = "auto"
    similarity: str | Similarity = "neg_kl"
    max_epochs: int | str = "auto"
    batch_size: int = 32
    learning_rate: float | str = "auto"
    weight_decay: float | str = "auto"
    n_members: int | str = "auto"
    ensemble: Sequence[tuple[float, Mapping[str, Any]]] | None = None
    budget: float | str | None = "auto"

    @classmethod
    def fixed(cls, **overrides: Any) -> MaxMatchingMILClassifier:
        """Return the training loop with one fixed setting: linear, tempered, both normalizations.

        Parameters
        ----------
        **overrides : object
            Parameters that shall differ.

        Returns
        -------
        MaxMatchingMILClassifier
            Not fitted.
        """
        return cls(**{**LOOP_DEFAULTS, **overrides})

    @classmethod
    def paper(cls, **overrides: Any) -> MaxMatchingMILClassifier:
        """Return the paper's settings: linear, max selection, lambda 1, Adam for 50 epochs.

        Every parameter stands beside the paper's in docs/paper_settings.md.

        Returns
        -------
        MaxMatchingMILClassifier
            Not fitted.
        """
        settings = {
            "encoder": "identity",
            "normalize": "targets",
            "background": False,
            "absent_strength": 0.0,
            **PAPER_TRAINING,
        }
        return cls.fixed(**{**settings, **overrides})

    def fit(
        self,
        bags: Any,
        y: Any,
        *,
        groups: ArrayLike | None = None,
        patients: ArrayLike | None = None,
        truth: Any = None,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> MaxMatchingMILClassifier:
        """Learn from bags and their labels.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            One array of shape (size, n_features) per bag; an array (n_bags, size, n_features);
            or flat rows (n_rows, n_features) with `groups`.
        y : array-like
            One label per bag, a set of labels per bag, or a 0/1 matrix (n_bags, n_classes). A bag
            whose set is empty has none of the labels: all of its instances are background. With
            `groups` also one label per row, a series whose index names the bags, or labels in
            the order in which bags first appear.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.
        patients : array-like of shape (n_bags,), optional
            Whom each bag comes from: where options are compared on held-out bags, those of one
            patient are held out together.
        truth : array-like of shape (n_instances,), optional
            True labels of some instances, among those of `y`, in the order of the rows given;
            None where one is not known. Options are still compared by bags; what is taken is
            trained on the bags and on the instances that are known.
        validate : callable, optional
            Called with this estimator after each epoch; the best epoch's weights are kept.
        workers : Workers, optional
            The processes that share this training; by default this one trains alone.
        checkpoint : Checkpoints, optional
            Where the training saves itself while it runs, and resumes from after an interruption.

        Returns
        -------
        MaxMatchingMILClassifier
            This estimator.
        """
        self._check_parameters()
        instances = as_bags(bags, groups)
        labels, self.classes_ = read_bag_labels(y, len(instances), groups=groups)
        warn_about_ungrouped_rows(bags, groups, labels)
        origins = None if patients is None else np.asarray(patients)
        if origins is not None and origins.shape != (len(instances),):
            raise DataError(
                f"{counted(len(instances), 'bags')} came with patients of shape {origins.shape}; "
                "give one per bag."
            )
        if origins is not None:
            check_group_ids(origins, "patient", "bags")
        known = read_instance_labels(truth, self.classes_, instances, groups)
        if known is not None and (known < 0).all():
            raise DataError("truth says the label of no instance; leave it out.")
        remember_columns(self, feature_tables(bags, instances[0]))
        self.calibration_temperature_, self.calibration_groups_ = 1.0, 0
        self.set_calibration_ = self.bag_set_calibration_ = None
        self.ensemble_ = None
        is_shared = workers is not None and workers.count > 1
        named = not (isinstance(y, np.ndarray) and y.ndim == 2)
        if not self._loop_parameter() and not is_shared and len(self.classes_) > 1:
            with exclusive_training(checkpoint, Workers()):
                self._decide(
                    instances,
                    labels,
                    named=named,
                    checkpoint=checkpoint,
                    patients=origins,
                    truth=known,
                )
            if validate is not None:
                self.history_.append({"epoch": 1, "validation": validate(self)})
            return self
        if known is not None:
            instances, labels = add_known_instances(instances, labels, known)
        self._fit_loop(instances, labels, validate=validate, workers=workers, checkpoint=checkpoint)
        return self

    def _check_parameters(self) -> None:
        """Refuse values that no fit can have, and settings that contradict each other."""
        open_too = ("auto",)
        if not is_auto(self.background) and not isinstance(self.background, (bool, np.bool_)):
            raise ParameterError(
                f"background must be True, False or 'auto'; got {self.background!r}."
            )
        check_choice("normalize", self.normalize, ("both", "targets", *open_too))
        check_choice("scaling", self.scaling, (*SCALINGS, *open_too))
        check_choice("likelihood", self.likelihood, (*LIKELIHOODS, *open_too))
        check_positive("absent_strength", self._in_use("absent_strength"), allow_zero=True)
        check_dropout(self._in_use("dropout"))
        check_count("dim", self._in_use("dim"))
        decay, hidden = self._in_use("weight_decay"), self._in_use("hidden")
        check_positive("weight_decay", decay, allow_zero=True)
        for width in (hidden,) if np.ndim(hidden) == 0 else hidden:
            check_count("hidden", width)
        parse_budget(self.budget)
        if not is_auto(self.likelihood) and self.likelihood != "matching":
            asked = self._loop_parameter()
            if asked:
                raise ParameterError(
                    f"likelihood={self.likelihood!r} is trained without the loop that "
                    f"{asked}={getattr(self, asked)!r} is for; leave one of the two out."
                )

    def _decide(
        self,
        bags: Groups,
        labels: BoolArray,
        *,
        named: bool,
        checkpoint: Checkpoints | None,
        patients: NDArray[Any] | None,
        truth: IntArray | None,
    ) -> None:
        """Search, and keep the ensemble and the decisions."""
        generator = self._generator()
        negative, said = find_negative_label(
            self.negative_label, self.classes_, labels, named=named
        )
        explicit = {
            name: getattr(self, name)
            for name in SEARCH_PARAMETERS
            if not is_auto(getattr(self, name))
        }
        if "hidden" in explicit and np.ndim(explicit["hidden"]) > 0:
            explicit["hidden"] = int(explicit["hidden"][0])
        saves = None
        if checkpoint is not None:
            given = {"labels": labels, "patients": patients, "truth": truth}
            saves = FitSaves(checkpoint, bags, {**self._settings(), **given}, generator)
        is_open = is_auto(self.negative_label) and negative is None and len(self.classes_) == 2
        asked = SearchRequest(
            explicit,
            given=self.ensemble,
            budget=parse_budget(self.budget, default=AUTO_BUDGET),
            may_guess=is_open and bool((labels.sum(axis=1) == 1).all()),
            reasons=said,
            on_progress=self.on_epoch,
        )
        with training_on(self.device), search_context(saves, self.on_epoch):
            outcome = decide_from_memory_or_disk(
                bags, labels, self.classes_, negative, asked, generator, patients, truth
            )
        self._use_ensemble(outcome.ensemble)
        self.decisions_ = outcome.decisions
        self.set_calibration_ = outcome.instance_sets
        self.bag_set_calibration_ = outcome.bag_sets
        self.history_ = History()
        for sentence in self.decisions_.warnings:
            warnings.warn(sentence, UserWarning, stacklevel=3)

    def _use_ensemble(self, ensemble: BagEnsemble) -> None:
        """Take members that answer together as what was fitted."""
        self.ensemble_, column = ensemble, ensemble.negative
        self.negative_label_ = None if column is None else self.classes_[column]
        self.members_ = ensemble.modules()
        self.model_ = self._models()[0]

    def _objective(self) -> GroupObjective:
        """Return what answers about single groups go by."""
        if self.ensemble_ is not None:
            return GroupObjective(Marginal(), None, 0.0)
        return super()._objective()

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        if self.ensemble_ is None:
            kept = {} if self.negatives_ is None else {"negatives": self.negatives_}
            arrays = {**self.scaler_.arrays(), **kept, **self._set_arrays()}
            return self._classifier_state(), arrays
        state = {**self._classifier_state(), "ensemble": self.ensemble_.as_record()}
        return state, {**self.ensemble_.arrays(), **self._set_arrays()}

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._restore_classifier(fitted)
        self._restore_sets(arrays)
        if "ensemble" in fitted:
            self._use_ensemble(BagEnsemble.from_record(fitted["ensemble"], arrays))
            return
        self.ensemble_, self.negative_label_ = None, self.background_label
        self.scaler_ = Scaler.from_arrays(self._in_use("scaling"), arrays)
        self.negatives_ = arrays.get("negatives")
        self._rebuild_members(self._build_model, arrays)
