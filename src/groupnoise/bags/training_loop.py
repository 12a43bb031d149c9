"""The paper's training loop on bags, with one group per pair of bag and label."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import torch

from groupnoise.bags.prediction import MAX_OBJECTS, BagPredictions
from groupnoise.bags.search.members import FORESTS
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.candidates import FullCandidates
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.prior_weights import ClassWeight, group_weights
from groupnoise.core.streamed_groups import StreamedGroups, scaled_groups
from groupnoise.core.weighting import ContrastiveWeighting
from groupnoise.core.words import counted
from groupnoise.decisions.portfolio import Option, is_auto
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import ParameterError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.workers import Workers

LOOP_DEFAULTS: dict[str, Any] = {
    "encoder": "identity",
    "hidden": (128,),
    "dim": 64,
    "dropout": 0.3,
    "scaling": "standard",
    "normalize": "both",
    "background": False,
    "absent_strength": 0.0,
    "selection": "tempered",
    "temperature": (1.0, 0.7),
    "weighting_strength": 0.1,
    "max_epochs": 50,
    "learning_rate": 1e-2,
    "weight_decay": 0.0,
    "n_members": 1,
}
"""Values of "auto" parameters in the training loop."""
SEARCH_PARAMETERS = (
    "likelihood",
    "scaling",
    "encoder",
    "hidden",
    "dropout",
    "background",
    "weight_decay",
)
"""Parameters that narrow the portfolio of the search; all others select the training loop."""
LOOP_PARAMETERS: dict[str, Any] = {
    **{name: "auto" for name in LOOP_DEFAULTS if name not in SEARCH_PARAMETERS},
    "background_label": None,
    "top_k": 2,
    "weighting": "sigmoid",
    "similarity": "neg_kl",
    "similarity_scale": 1.0,
    "class_weight": None,
    "batch_size": 32,
    "schedule": "cosine",
    "patience": None,
    "keep": "last",
    "mixed_precision": False,
}
"""Parameters that select the training loop, with their defaults."""


class BagLoop(BagPredictions):
    """Training by the paper's loop."""

    class_weight: ClassWeight
    background_label: Any
    _max_objects = MAX_OBJECTS

    def _fit_loop(
        self,
        instances: Groups,
        labels: BoolArray,
        *,
        validate: Validate | None,
        workers: Workers | None,
        checkpoint: Checkpoints | None,
    ) -> None:
        """Train the members of the loop one after the other."""
        self._record_loop_decision()
        self.negatives_ = None
        asked = self._targets_of_bags(labels)
        bag, label = np.nonzero(asked)  # one group per (bag, label)
        self.scaler_, scaled = scaled_groups(self._in_use("scaling"), instances)
        training = scaled.subset(bag)
        training.targets = label.astype(np.int64)
        allowed, of_group = asked[bag], np.eye(asked.shape[1], dtype=bool)[label]
        if self.background_label is not None:
            allowed[:, self._column_of_background()] = True
        if self._in_use("background"):
            allowed[:, -1] = True
        self._train_members(
            self._build_model,
            training,
            self._pair(workers),
            self._generator(),
            allowed=torch.from_numpy(allowed),
            group_weights=group_weights(
                self.class_weight, of_group[:, : len(self.classes_)], self.classes_
            ),
            validate=validate,
            workers=workers,
            checkpoint=checkpoint,
        )
        self._keep_negatives(instances)

    def _targets_of_bags(self, labels: BoolArray) -> BoolArray:
        """Return the targets of each bag: its labels, or background if it has none."""
        none = ~labels.any(axis=1, keepdims=True)
        if self._in_use("background"):
            return np.hstack([labels, none])
        if self.background_label is not None:
            return labels | (none & (self.classes_ == self.background_label))
        if none.any():
            warnings.warn(
                f"{int(none.sum())} of {counted(len(labels), 'bags')} have no label, and without "
                f"background "
                "the training loop learns nothing of them; say background=True.",
                UserWarning,
                stacklevel=4,
            )
        return labels

    def _keep_negatives(self, instances: Groups) -> None:
        """Keep negatives of a contrastive weighting for predictions.

        Training takes them from its batches; predictions must not depend on other bags.
        """
        weighting = self._objective().weighting
        if not isinstance(weighting, ContrastiveWeighting):
            return
        n_kept = min(weighting.n_negatives, instances.n_objects)
        if isinstance(instances, StreamedGroups):
            rows = instances.sample_rows(n_kept)
        else:
            positions = np.linspace(0, instances.n_objects - 1, n_kept).astype(np.int64)
            rows = instances.objects[positions]
        self.negatives_ = self._log_probabilities(self.scaler_(rows)).numpy()

    def _loop_parameter(self) -> str | None:
        """Return the name of an explicit parameter that selects the training loop, if any."""
        if self.ensemble is not None:
            return None
        if not (is_auto(self.encoder) or self.encoder in ("identity", "mlp", *FORESTS)):
            return "encoder"
        if not is_auto(self.hidden) and np.ndim(self.hidden) > 0 and len(self.hidden) != 1:
            return "hidden"
        for name, silent in LOOP_PARAMETERS.items():
            value = getattr(self, name)
            if not (type(value) is type(silent) and value == silent):
                return name
        return None

    def _in_use(self, name: str) -> Any:
        """Return the value of a parameter, that of the training loop if it is "auto"."""
        value = getattr(self, name)
        return LOOP_DEFAULTS[name] if is_auto(value) else value

    def _record_loop_decision(self) -> None:
        """Record that the training loop was selected, and by which parameter."""
        self.negative_label_ = self.background_label
        used = {
            name: value
            for name in LOOP_DEFAULTS
            if isinstance(value := self._in_use(name), (bool, int, float, str, tuple, list))
        }
        asked = self._loop_parameter()
        why = f"{asked} was given: the training loop, and its stated values for what is open."
        self.decisions_ = Decisions(
            {},
            (Option("explicit", used),),
            (),
            (("explicit", 1.0),),
            reasons=(why,) if asked else (),
        )

    def _column_of_background(self) -> IntArray:
        if not self._in_use("absent_strength"):
            raise ParameterError(
                f"background_label={self.background_label!r} has no effect while absent_strength "
                "is 0; set absent_strength, for example to 1.0, or name it as negative_label."
            )
        column: IntArray = np.flatnonzero(self.classes_ == self.background_label)
        if not len(column):
            raise ParameterError(
                f"background_label {self.background_label!r} is none of the labels of the bags: "
                f"{', '.join(map(repr, self.classes_[:5].tolist()))} ..."
            )
        return column

    def _build_model(self, generator: torch.Generator) -> MatchingModel:
        linear = isinstance(self._in_use("encoder"), str) and self._in_use("encoder") == "identity"
        dim = self.n_features_in_ if linear else self._in_use("dim")
        encoder = self._feature_encoder(self.n_features_in_, dim, generator)
        n_targets = len(self.classes_) + bool(self._in_use("background"))
        table = EmbeddingEncoder(n_targets, dim, std=0.01, generator=generator)
        return MatchingModel(
            encoder, table, n_targets=n_targets, has_bias=True, precision=self._precision()
        )

    def _pair(self, workers: Workers | None = None) -> PairMatching:
        n_targets = len(self.classes_) + bool(self._in_use("background"))
        normalize: Literal["both", "targets"] = (
            "both" if self._in_use("normalize") == "both" else "targets"
        )
        return PairMatching(
            FullCandidates(n_targets),
            normalize,
            with_probabilities=True,
            over_workers=None if workers is None else workers.logsumexp,
        )
