"""Base of the estimators: objective and training plan from parameters, members, model files."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from groupnoise import __version__
from groupnoise.core.arrays import generator_from, torch_generator
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.device import CPU, find_device
from groupnoise.core.encoders import IdentityEncoder, LinearEncoder, MLPEncoder, reduced_precision
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, make_selection, make_weighting
from groupnoise.core.pair_matching import Matcher
from groupnoise.core.words import counted
from groupnoise.decisions.portfolio import is_auto
from groupnoise.decisions.record import Decisions
from groupnoise.decisions.trade_off import TradeOff, TrialData, choose_trade_off
from groupnoise.exceptions import ModelFileError, ParameterError
from groupnoise.io.folders.model_files import (
    NOT_SAVED,
    read_model,
    refuse_incomplete_model,
    write_model,
)
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.parameters import (
    OWN_ENCODER,
    History,
    MatchingParameters,
    TrainingPlan,
    load_weights,
    read_parameters,
    saved_parameters,
    saved_weights,
)
from groupnoise.training.saver import exclusive_training
from groupnoise.training.state import Moments
from groupnoise.training.trainer import train
from groupnoise.training.workers import Workers

Validate = Callable[[Any], float]
"""Scores an estimator after an epoch; larger is better."""


class MatchingEstimator(MatchingParameters, BaseEstimator):
    """Base of the estimators."""

    model_: MatchingModel
    trade_off_: TradeOff
    decisions_: Decisions
    _max_objects: ClassVar[int | None] = None
    """Objects of a batch that are held at a time."""

    @property
    def weighting_strength_(self) -> float:
        """The strength in use: the parameter, or what was chosen where it is "auto"."""
        return self._in_use("weighting_strength")

    @property
    def temperature_(self) -> Any:
        """The temperature in use: the parameter, or what was chosen where it is "auto"."""
        return self._in_use("temperature")

    def _in_use(self, name: str) -> Any:
        value = getattr(self, name)
        if not is_auto(value):
            return value
        if not hasattr(self, "trade_off_"):
            raise ParameterError(f"{name}='auto' is chosen in fit, and this model was not fitted.")
        return getattr(self.trade_off_, name)

    def _resolve_trade_off(self, data: TrialData) -> None:
        """Choose "auto" values on held-out groups of the training data."""
        if hasattr(self, "trade_off_"):
            del self.trade_off_  # chosen in an earlier fit
        if is_auto(self.weighting_strength) or is_auto(self.temperature):
            self.trade_off_ = choose_trade_off(self._trial_estimator(), data, self._generator())

    def _trial_estimator(self) -> MatchingEstimator:
        """Return the estimator whose clones try values of "auto" parameters."""
        return self

    def _objective(self) -> GroupObjective:
        check_positive("weighting_strength", self.weighting_strength_, allow_zero=True)
        check_positive("similarity_scale", self.similarity_scale)
        return GroupObjective(
            make_selection(self._in_use("selection"), temperature=self.temperature_, k=self.top_k),
            make_weighting(self.weighting, similarity=self.similarity, scale=self.similarity_scale),
            self.weighting_strength_,
            self._in_use("absent_strength") if hasattr(self, "absent_strength") else 0.0,
            self._in_use("recency") if hasattr(self, "recency") else 0.0,
        )

    def _plan(self) -> TrainingPlan:
        return TrainingPlan(
            max_epochs=self._in_use("max_epochs"),
            batch_size=self._in_use("batch_size"),
            learning_rate=self._in_use("learning_rate"),
            weight_decay=self._in_use("weight_decay"),
            schedule=self.schedule,
            patience=self.patience,
            keep=getattr(self, "keep", "best"),
            shuffle_pool=getattr(self, "shuffle_pool", None),
            max_objects=self._max_objects,
        )

    def _feature_encoder(self, n_features: int, dim: int, generator: torch.Generator) -> nn.Module:
        """Return the encoder of feature rows that the parameter `encoder` names."""
        encoder = self._in_use("encoder")
        if isinstance(encoder, nn.Module):
            # A copy: fitting again starts from the weights the module was given with.
            return copy.deepcopy(encoder)
        if encoder == "identity":
            return IdentityEncoder()
        if encoder == "linear":
            return LinearEncoder(n_features, dim, generator=generator)
        if encoder == "mlp":
            hidden = self._in_use("hidden")
            widths = (hidden,) if np.ndim(hidden) == 0 else hidden
            for width in widths:
                check_count("hidden", width)
            return MLPEncoder(
                n_features, widths, dim, dropout=self._in_use("dropout"), generator=generator
            )
        raise ParameterError(
            f"encoder must be 'identity', 'linear', 'mlp' or a torch module; got {encoder!r}."
        )

    def _precision(self) -> torch.dtype | None:
        """Return the precision encoders run in; None is float32."""
        return reduced_precision(self._device()) if self.mixed_precision else None

    def _device(self, n_workers: int = 1) -> torch.device:
        return find_device(getattr(self, "device", "cpu"), n_workers=n_workers)

    def _train(
        self,
        model: MatchingModel,
        groups: Groups,
        pair: Matcher,
        generator: np.random.Generator,
        *,
        allowed: Tensor | None = None,
        group_weights: Tensor | None = None,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
        moments: Moments | None = None,
    ) -> None:
        """Train and keep `model_` and `history_`.

        The estimator is usable during validation, and with the best weights so far if the
        training fails.
        """
        self.model_ = model
        self.history_ = History()
        workers = workers or Workers()
        device = self._device(workers.count)
        score = partial(self._score, model=model, workers=workers, device=device)
        train(
            model,
            groups,
            pair=pair,
            objective=self._objective(),
            plan=self._plan(),
            generator=generator,
            allowed=allowed,
            group_weights=group_weights,
            validate=None if validate is None else partial(score, validate),
            on_epoch=self.on_epoch,
            history=self.history_,
            workers=workers,
            checkpoints=checkpoint,
            settings=self._settings(),
            device=device,
            moments=moments,
        )
        if model.precision is not None:
            model.precision = reduced_precision(CPU)  # answers are given there
        self.model_ = workers.gather(model)

    def _score(
        self, validate: Validate, *, model: MatchingModel, workers: Workers, device: torch.device
    ) -> float:
        """Score the estimator on the first worker, after gathering the parts of all."""
        self.model_ = workers.gather(model.to(CPU))  # where answers are given
        try:
            return validate(self) if workers.rank == 0 else 0.0
        finally:
            model.to(device)

    def _settings(self) -> dict[str, Any]:
        """Return the settings that must be unchanged for a saved training to resume."""
        parameters = self.get_params(deep=False)
        for name in NOT_SAVED:
            parameters.pop(name, None)
        names = self.classes_ if hasattr(self, "classes_") else self.items_
        return {"estimator": type(self).__name__, **parameters, "names of the targets": names}

    def _train_members(
        self,
        build: Callable[[torch.Generator], MatchingModel],
        groups: Groups,
        pair: Matcher,
        generator: np.random.Generator,
        *,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
        **training: Any,
    ) -> None:
        """Train `n_members` models and keep them as `members_`.

        During validation the members trained so far and the one in training are averaged.
        """
        n_members = self._in_use("n_members")
        check_count("n_members", n_members)
        if n_members > 1 and isinstance(getattr(self, "encoder", None), nn.Module):
            raise ParameterError(
                "n_members needs an encoder by name; an encoder of your own would be shared by "
                f"all {n_members} members."
            )
        self.members_ = nn.ModuleList()
        history = History()
        with exclusive_training(checkpoint, workers or Workers()):
            for member in range(1, n_members + 1):
                model = build(torch_generator(generator))
                self.members_.append(model)
                self._train(
                    model,
                    groups,
                    pair,
                    generator,
                    workers=workers,
                    checkpoint=checkpoint.member(member)
                    if checkpoint and n_members > 1
                    else checkpoint,
                    **training,
                )
                self.members_[-1] = self.model_  # gathered, where its tables were split
                for record in self.history_:
                    history.append({"member": member, **record})
        if n_members > 1:
            self.history_ = history
        self.model_ = self._models()[0]

    def _rebuild_members(
        self, build: Callable[[torch.Generator], MatchingModel], arrays: Mapping[str, object]
    ) -> None:
        """Build untrained members, whose weights are loaded from a file later."""
        n_members = self._in_use("n_members")
        check_count("n_members", n_members)
        if n_members > len(arrays):
            raise ParameterError(
                f"{counted(n_members, 'members')} cannot stand in {counted(len(arrays), 'arrays')}."
            )
        generator = torch.Generator().manual_seed(0)
        self.members_ = nn.ModuleList(build(generator) for _ in range(n_members))
        self.model_ = self._models()[0]

    def _models(self) -> list[MatchingModel]:
        return [model for model in self.members_ if isinstance(model, MatchingModel)]

    def _weights(self) -> nn.Module:
        return getattr(self, "members_", self.model_)

    def _generator(self) -> np.random.Generator:
        return generator_from(self.random_state)

    def save(self, path: Path | str) -> None:
        """Write the fitted model to a folder (safetensors and JSON; see the docs on files).

        Parameters
        ----------
        path : Path or str
            A folder; it appears whole or not at all.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "model_")
        fitted, more = self._fitted_state()
        manifest = {
            "groupnoise_version": __version__,
            "parameters": saved_parameters(self.get_params(deep=False)),
            "fitted": fitted,
            "history": list(self.history_),
            "best_epoch": self.history_.best_epoch,
        }
        if hasattr(self, "trade_off_"):
            manifest["trade_off"] = self.trade_off_.as_record()
        if hasattr(self, "decisions_"):
            manifest["decisions"] = self.decisions_.as_record()
        arrays = {**saved_weights(self._weights()), **more}
        write_model(path, kind=type(self).__name__, manifest=manifest, arrays=arrays)

    @classmethod
    def load(cls, path: Path | str, *, encoder: nn.Module | None = None) -> Any:
        """Read a model folder; no training data is needed and no code in it is run.

        Parameters
        ----------
        path : path
            What :meth:`save` wrote.
        encoder : nn.Module, optional
            The architecture of an encoder of the user's own; its weights come from the file.

        Returns
        -------
        object
            The fitted estimator, of the class that was saved.
        """
        manifest, arrays = read_model(path, kind=cls.__name__)
        with refuse_incomplete_model(path):
            parameters = read_parameters(manifest["parameters"])
            estimator: Any = cls(**parameters)
            if parameters.get("encoder") == OWN_ENCODER:
                if encoder is None:
                    raise ModelFileError(
                        f"{path} was trained with an encoder of your own; "
                        "pass its architecture as load(path, encoder=...)."
                    )
                estimator.encoder = encoder
            # Sizes that a manifest merely claims take no memory: weights come with their own.
            own = parameters.get("encoder") == OWN_ENCODER
            with nullcontext() if own else torch.device("meta"):
                estimator._rebuild(manifest["fitted"], arrays)
            load_weights(estimator._weights(), arrays)
            estimator._weights().eval()
            estimator.history_ = History(manifest.get("history"))
            estimator.history_.best_epoch = manifest.get("best_epoch")
            if "trade_off" in manifest:
                estimator.trade_off_ = TradeOff.from_record(manifest["trade_off"])
            if "decisions" in manifest:
                estimator.decisions_ = Decisions.from_record(manifest["decisions"])
            estimator._objective()  # refuses settings that no training can have had
        return estimator

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state beside the weights, as JSON and arrays."""
        raise TypeError(f"{type(self).__name__} cannot be saved.")

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Rebuild the untrained model from what :meth:`_fitted_state` returned."""
        raise TypeError(f"{type(self).__name__} cannot be loaded.")
