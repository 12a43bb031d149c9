"""MaxMatchingRecommender: click histories in, ranked next items out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from numpy.typing import NDArray

from groupnoise.clicks.evidence.decide import EvidenceFit, decide_evidence
from groupnoise.clicks.evidence.linear import Linear
from groupnoise.clicks.evidence.model import Evidence
from groupnoise.clicks.evidence.options import DECIDED, ENCODERS, REGRESSIONS, member_encoders
from groupnoise.clicks.items.catalogue import Catalogue, ItemHistories
from groupnoise.clicks.items.features import FeatureMap
from groupnoise.clicks.scoring import NORMALIZATIONS, SCOPES, ScoringRule
from groupnoise.clicks.updates import UpdatableRecommender
from groupnoise.clicks.windows.training import CLICK_VALUES
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.device import training_on
from groupnoise.core.groups import Groups
from groupnoise.core.objective import Selection
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.portfolio import is_auto, parse_budget
from groupnoise.exceptions import ParameterError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.parameters import History
from groupnoise.training.saver import FitSaves, exclusive_training
from groupnoise.training.state import Moments
from groupnoise.training.workers import Workers

DECISION_SECONDS = 900.0
"""Seconds of the budget "auto"; the search on a typical log takes a fraction of it."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class MaxMatchingRecommender(UpdatableRecommender):
    """Recommend next items after learning from click histories.

    Objects are clicked items, the target is the next one; f and g are vectors per item, h = f and
    S the dot product (the paper's Table 1, third row).

    Without parameters `fit` decides on held-out clicks how to learn from a log, and says so in
    `decisions_`. By default the evidence of a whole history is added before it is normalised over
    the catalogue (:mod:`groupnoise.clicks.evidence.model`); the paper's groups of a few clicks,
    each normalised by itself, are `normalization="click"`, which a parameter that only they have
    (`selection`, `recency`, `weighting` ...) asks for too.

    Parameters
    ----------
    normalization : {"auto", "history", "click"}, default="auto"
        Whether evidence is added over a history and then normalised, or every click is normalised
        and then mixed. "auto" is "history" unless a parameter, ready-made windows or workers
        ask for "click". The values of "auto" below hold for "click"; for "history"
        they are decided.
    dim : int or "auto", default="auto"
        Width of the vectors; "auto" is 128.
    shared : bool or "auto", default="auto"
        Whether f and g share one table; "auto" is True.
    item_bias : bool, default=True
        Whether every item has a bias as a target.
    window_size : int or "auto", default="auto"
        How many of the latest clicks count; "auto" is 5. Linear evidence is added over up to 1000.
    min_window : int, default=1
        The fewest clicks that make a group; `window_size` keeps full windows alone.
    scope : {"group", "last"}, default="group"
        What a recommendation is made from: all clicks that count (the paper's MM+), or the last
        one (MM).
    candidates : {"auto", "sampled", "full", "in_batch"}, default="auto"
        What a softmax normalises over; "auto" is "sampled".
    n_negatives : int or "auto", default="auto"
        How many items "sampled" draws for a batch; "auto" is 256.
    corrected : bool, default=False
        Whether sampled candidates are corrected for how they were drawn (logQ).
    init : {"auto", "random", "spectral"} or sequence of them, default="auto"
        Initial vectors: random ones (the paper, and "auto"), or eigenvectors of which items are
        clicked together. These place a rare item among its neighbours' neighbours, which lifts
        the top of the whole catalogue; they cost memory for the pairs of items clicked together.
        Members take the entries of a sequence in turn.
    init_std : float, default=0.05
        Standard deviation of random initial vectors.
    selection : {"auto", "max", "marginal", "tempered", "top_k", "all"} or Selection, default="auto"
        How the score of a group comes from those of its clicks; "auto" is "marginal".
    recency : float or "auto", default="auto"
        How fast trust in a click falls with each later click, in training and in answers; see
        :func:`groupnoise.core.objective.log_recency`. 0 (the paper) ignores the order; "auto" is
        0.3.
    encoder : {"auto", "recurrence", "deep recurrence", None} or sequence, default="auto"
        What reads a history in order, for "history": "recurrence" adds to the sum over clicks what
        gated recurrences make of their order (:mod:`groupnoise.clicks.evidence.recurrence`); the
        deep one has twice the layers, width and epochs, and one table whatever `shared`; None adds
        nothing. Of a sequence each entry is a member, and their scores are averaged.
    linear : mapping, "auto" or None, default="auto"
        Linear evidence added to what was learned, for "history": for "together" (EASE),
        "following" and "next" a (weight, ridge, rate) and, if not 256, the rank; see
        :mod:`groupnoise.clicks.evidence.linear`.
    max_epochs : int or "auto", default="auto"
        Passes over the data; "auto" is 6.
    batch_size : int or "auto", default="auto"
        Groups, or targets of histories, per step; "auto" is 512.
    learning_rate : float or "auto", default="auto"
        Adam step size; "auto" is 5e-3.
    weight_decay : float or "auto", default="auto"
        Decoupled weight decay; of "history" towards the initial vectors. "auto" is 0.2.
    levelling : float or "auto", default="auto"
        How soon the loss of a click that the clicks before it hardly predict levels off, for
        "history": the exponent of a generalized cross-entropy beyond four nats. 0 is the
        cross-entropy; "auto" is 0.2, and 0 on a log of 50 clicks per item or more.
    shuffle_pool : int, optional
        How many groups on disk are mixed at a time.
    n_members : int or "auto", default="auto"
        How many models are trained one after the other; their scores are averaged. They become
        one model of `n_members * dim` wide vectors, which is saved, exported and served as any
        other. `init=("spectral", "random")` makes them differ, so that averaging helps most.
        "auto" is 1.
    budget : float, str, "auto" or None, default="auto"
        Time after which nothing further is tried: seconds, or a text such as "2m". "auto" is 15
        minutes, which only large logs reach; None sets no limit.
    keep_optimizer : bool, default=False
        Whether the moments of Adam are kept and saved with the model, which becomes three times as
        large, for :meth:`partial_fit` (`fit --from`) to go on with.
    on_epoch : callable or None, default=None
        Called with a record after each epoch; those of trials name the option in "trial". Before
        the last training it is called for epoch 0 with the "expected_seconds".

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        The id of each item index.
    popularity_ : ndarray of shape (n_items,)
        How often each item was a target.
    model_ : MatchingModel
        The trained tables.
    history_ : History
        One record per epoch.
    decisions_ : Decisions
        What was tried, what it scored, what was taken and why.
    optimizer_state_ : list of dict
        Both moments and the steps of Adam by parameter, of each member; with `keep_optimizer`.

    Examples
    --------
    >>> day = ["tea", "milk", "jam", "bread"]
    >>> histories = [day, day[1:] + day[:1], ["nail", "saw", "glue"], ["glue", "nail", "saw"]] * 10
    >>> model = MaxMatchingRecommender(dim=8, random_state=0)
    >>> ids, _ = model.fit(histories).recommend([["tea", "milk"]], top=1)
    >>> ids.tolist()
    [['jam']]
    """

    normalization: str = "auto"
    dim: int | str = "auto"
    shared: bool | str = "auto"
    item_bias: bool = True
    window_size: int | str = "auto"
    min_window: int = 1
    scope: str = "group"
    candidates: str = "auto"
    n_negatives: int | str = "auto"
    corrected: bool = False
    init: str | Sequence[str] = "auto"
    init_std: float = 0.05
    selection: str | Selection = "auto"
    recency: float | str = "auto"
    encoder: str | Sequence[str | None] | None = "auto"
    linear: Linear | str | None = "auto"
    max_epochs: int | str = "auto"
    batch_size: int | str = "auto"
    learning_rate: float | str = "auto"
    weight_decay: float | str = "auto"
    levelling: float | str = "auto"
    schedule: str = "linear"
    shuffle_pool: int | None = None
    n_members: int | str = "auto"
    budget: float | str | None = "auto"
    keep_optimizer: bool = False

    @classmethod
    def paper(cls, **overrides: Any) -> MaxMatchingRecommender:
        """Return the paper's settings as far as they can run on a large catalogue.

        Max selection, lambda 1, full windows, plain Adam; but a sample of items in place of the
        full softmax, one table in place of two, a bias, and fewer epochs. Every parameter stands
        beside the paper's in docs/paper_settings.md, with what makes it exact on a small one.

        Parameters
        ----------
        **overrides : object
            Parameters that shall differ.

        Returns
        -------
        MaxMatchingRecommender
            Not fitted.
        """
        settings = {
            **CLICK_VALUES,
            "normalization": "click",
            "encoder": None,
            "linear": None,
            "selection": "max",
            "weighting_strength": 1.0,
            "recency": 0.0,
            "min_window": 5,
            "weight_decay": 0.0,
            "levelling": 0.0,
            "schedule": "constant",
            "learning_rate": 1e-3,
            "max_epochs": 10,
        }
        return cls(**{**settings, **overrides})

    def fit(
        self,
        histories: ItemHistories | Groups,
        y: object = None,
        *,
        item_ids: Any = None,
        item_features: Any = None,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> MaxMatchingRecommender:
        """Learn from click histories.

        Parameters
        ----------
        histories : sequence of sequences of item ids, Groups, or a log
            Each user's clicks in time order; a frame of a row per click, or what `read_clicks`
            returned, is put in this form, its columns guessed. Groups hold item indices: without
            targets each is a whole history, with targets each is a window whose next click is
            known; windows of fewer than `min_window` clicks are left out.
        y : ignored, optional
            Present for scikit-learn.
        item_ids : array-like of shape (n_items,), optional
            The whole catalogue; by default every item that occurs.
        item_features : frame, path or array of shape (n_items, n_features), optional
            What is known of items: numbers, categories joined by |, text, lists of numbers, beside
            a column of item ids; the rows of an array are those of `item_ids`. Items that nobody
            clicked are placed by it, and may be added to an artifact later.
        validate : callable, optional
            Called with this estimator after each epoch; the best epoch's weights are kept. Of
            several members the one in training answers alone.
        workers : Workers, optional
            The processes that share this training; by default this one trains alone.
        checkpoint : Checkpoints, optional
            Where the training saves itself while it runs, and resumes from after an interruption.

        Returns
        -------
        MaxMatchingRecommender
            This estimator.
        """
        training = self._prepare(histories, item_ids)
        features = self._read_features(item_features)
        for name in ("rule_", "decisions_", "feature_map_", "optimizer_state_"):
            if hasattr(self, name):
                delattr(self, name)  # of an earlier fit
        needs_clicks = training.targets is not None or workers is not None
        decided = None
        if self._normalization(needs_clicks) == "history":
            with training_on(self.device), exclusive_training(checkpoint, Workers()):
                decided = self._fit_histories(training, validate, checkpoint)
        else:
            if self.keep_optimizer and (workers is not None or self._in_use("n_members") > 1):
                raise ParameterError(
                    "keep_optimizer goes with one model trained in one process; leave out "
                    "n_members and workers."
                )
            self.decisions_ = self._explicit_decisions()
            self._fit_windows(training, validate, workers, checkpoint)
        if workers is None or workers.rank == 0:  # others hold a part of the tables
            self._place_by_features(features, training, decided)
        return self

    def _normalization(self, needs_clicks: bool) -> str:
        """Return the normalization; `needs_clicks`: whether data or workers require "click"."""
        given = self._click_only_parameters()
        if self.normalization == "history" and (given or needs_clicks):
            reason = f"{given[0]}={getattr(self, given[0])!r}" if given else "windows, workers"
            raise ParameterError(
                f'normalization="history" goes with whole histories in one process; {reason} '
                'belongs to normalization="click".'
            )
        chosen = self.normalization
        if chosen == "auto":
            chosen = "click" if given or needs_clicks else "history"
        for name, off in (("encoder", None), ("levelling", 0)):
            value = getattr(self, name)
            if chosen == "click" and not is_auto(value) and value != off:
                reason = f"{given[0]}={getattr(self, given[0])!r}" if given else "this training"
                raise ParameterError(
                    f'{name}={value!r} is for whole histories (normalization="history"); '
                    f"{reason} takes each click by itself."
                )
        return chosen

    def _fit_histories(
        self, histories: Groups, validate: Validate | None, checkpoint: Checkpoints | None
    ) -> EvidenceFit:
        """Decide on the evidence model of whole histories, and train it."""
        explicit = {
            name: getattr(self, name) for name in DECIDED if not is_auto(getattr(self, name))
        }
        self.history_ = History()

        def validated(evidence: Evidence) -> float:
            self._set_evidence(evidence)
            assert validate is not None
            return validate(self)

        generator = self._generator()
        saves = None
        if checkpoint is not None:
            parameters = {"n_items": self.n_items_, "linear": self.linear, **explicit}
            saves = FitSaves(checkpoint, histories, parameters, generator)
        moments: list[Moments] | None = [] if self.keep_optimizer else None
        decided = decide_evidence(
            histories,
            self.n_items_,
            explicit,
            generator,
            saves=saves,
            linear=self.linear,
            budget=parse_budget(self.budget, default=DECISION_SECONDS),
            validate=None if validate is None else validated,
            on_epoch=self.on_epoch,
            moments=moments,
        )
        self._set_evidence(decided.evidence)
        if moments is not None:
            self.optimizer_state_ = moments
        self.decisions_ = decided.decisions
        for record in decided.records:
            self.history_.append(record)
        if validate is not None:
            best = max(decided.records, key=lambda record: record["validation"])
            self.history_.best_epoch = best["epoch"]
        for sentence in decided.decisions.warnings:
            warnings.warn(sentence, UserWarning, stacklevel=3)
        return decided

    def _check_parameters(self) -> None:
        check_choice("normalization", self.normalization, ("auto", *NORMALIZATIONS))
        check_count("dim", self._in_use("dim"))
        check_count("window_size", self._in_use("window_size"))
        check_positive("recency", self._in_use("recency"), allow_zero=True)
        for name in ("n_negatives", "max_epochs", "batch_size", "n_members"):
            check_count(name, self._in_use(name))
        if not is_auto(self.levelling):
            check_positive("levelling", cast(float, self.levelling), allow_zero=True)
        check_choice("scope", self.scope, SCOPES)
        check_choice("candidates", self._in_use("candidates"), ("sampled", "full", "in_batch"))
        if isinstance(self.linear, str):
            check_choice("linear", self.linear, ("auto",))
        for name in {} if isinstance(self.linear, str) else self.linear or {}:
            check_choice("linear", name, tuple(REGRESSIONS))
        if not is_auto(self.encoder):
            if not member_encoders(self.encoder):
                raise ParameterError("encoder names no member; give 'recurrence', None or both.")
            for encoder in member_encoders(self.encoder):
                if encoder is not None:
                    check_choice("encoder", encoder, ENCODERS)
        parse_budget(self.budget)
        if not self._initializations():
            raise ParameterError("init names no start; give 'random', 'spectral' or both.")
        for start in self._initializations():
            check_choice("init", start, ("random", "spectral"))

    def _rebuild(self, fitted: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_parameters()
        self.catalogue_ = Catalogue.from_arrays(arrays)
        self.popularity_ = arrays["popularity"]
        self._check_popularity()
        self._restore_optimizer(arrays)
        width = fitted["dim"]
        if (features := FeatureMap.from_arrays(arrays, width)) is not None:
            self.feature_map_ = features
        if "rule" in fitted:
            self.rule_ = ScoringRule.from_record(fitted["rule"], arrays)
        self.model_ = self._empty_model(width)
