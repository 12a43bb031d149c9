"""GroupLoss: the objective as a plain torch loss around anybody's network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from groupnoise.core.checks import check_choice, check_positive
from groupnoise.core.objective import (
    GroupObjective,
    LossOutput,
    Selection,
    make_selection,
    make_weighting,
)
from groupnoise.core.pair_matching import Matching
from groupnoise.core.quantifier import (
    QUANTIFIERS,
    Segments,
    log_complement,
    log_label_likelihood,
    log_set_likelihood,
    presence,
)
from groupnoise.core.weighting import Similarity, Weighting
from groupnoise.core.words import counted, inherit_docstring
from groupnoise.exceptions import DataError, EmptyGroupError, ParameterError


@inherit_docstring
class GroupLoss(nn.Module):
    """The objective on dense logits: the formulas of the paper with nothing in between.

    This is the plain version the fast paths are held to, and what a PyTorch user adds to a
    training loop of their own.

    Parameters
    ----------
    selection : str or Selection, default="max"
        "max" (the paper), "marginal", "tempered", "top_k" or "all".
    weighting : str, Weighting or None, default="sigmoid"
        "sigmoid" (the paper), "contrastive" or None.
    similarity : str or Similarity, default="neg_kl"
        "neg_kl" compares class probabilities, "dot" compares `features`.
    weighting_strength : float, default=1.0
        Lambda; 1 is the paper's.
    temperature : float or (start, end), default=(1.0, 0.3)
        For "tempered".
    top_k : int, default=2
        For "top_k": number of objects averaged over.
    absent_strength : float, default=0.0
        Strength of the absent-class term, which needs `allowed`; 0 (the paper) leaves it out.
    quantifier : {"noisy_or", "max", "soft_max", "odds", "average", "label_set"} or None, \
            default=None
        Instead of the score of its one target, the likelihood of all labels of a group: some
        object has a present target, none an absent one; or the exact likelihood of the set.
    negative_target : int, optional
        With a quantifier, the target that no group is asked for and any object may have.
    reduction : {"mean", "sum", "none"}, default="mean"
        How the losses of the groups are put together.

    Examples
    --------
    >>> import torch
    >>> logits = torch.randn(4, 6, 10, requires_grad=True)  # 4 groups of 6 objects, 10 classes
    >>> loss = GroupLoss(selection="marginal")(logits, torch.tensor([1, 0, 3, 3]))
    >>> loss.backward()
    """

    def __init__(
        self,
        *,
        selection: str | Selection = "max",
        weighting: str | Weighting | None = "sigmoid",
        similarity: str | Similarity = "neg_kl",
        weighting_strength: float = 1.0,
        temperature: float | Sequence[float] = (1.0, 0.3),
        top_k: int = 2,
        absent_strength: float = 0.0,
        quantifier: str | None = None,
        negative_target: int | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        super().__init__()
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_positive("weighting_strength", weighting_strength, allow_zero=True)
        check_positive("absent_strength", absent_strength, allow_zero=True)
        self.objective = GroupObjective(
            make_selection(selection, temperature=temperature, k=top_k),
            make_weighting(weighting, similarity=similarity),
            weighting_strength,
            absent_strength,
        )
        if quantifier is not None:
            check_choice("quantifier", quantifier, (*QUANTIFIERS, "label_set"))
        elif negative_target is not None:
            raise ParameterError("negative_target goes with a quantifier; give one.")
        self.quantifier, self.negative_target = quantifier, negative_target
        self.reduction = reduction

    def forward(
        self,
        logits: Tensor,
        targets: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        allowed: Tensor | None = None,
        progress: float = 1.0,
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        logits : Tensor of shape (groups, size, n_targets)
            Logit of every object with every target.
        targets : int64 Tensor of shape (groups,)
            The target of each group.
        mask : bool Tensor of shape (groups, size), optional
            True where an object is real; all are by default.
        features : Tensor of shape (groups, size, dim), optional
            What "dot" compares; the logits by default.
        allowed : bool Tensor of shape (groups, n_targets), optional
            Targets each group may have, its own among them; for the absent-class term.
        progress : float, default=1.0
            Fraction of the training that is done, for a temperature schedule.

        Returns
        -------
        Tensor of shape () or (groups,)
            By `reduction`.
        """
        loss = self.details(logits, targets, mask, features, allowed, progress).per_group
        if self.reduction == "none":
            return loss
        return loss.mean() if self.reduction == "mean" else loss.sum()

    def details(
        self,
        logits: Tensor,
        targets: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        allowed: Tensor | None = None,
        progress: float = 1.0,
    ) -> LossOutput:
        """Return the loss of each group with the scores and responsibilities of its objects.

        Returns
        -------
        LossOutput
            `per_group`, `scores`, `log_weight`, `responsibility` and `chosen`.
        """
        mask = _check_inputs(logits, targets, mask)
        if allowed is not None:
            _check_allowed(allowed, targets, logits.shape[-1])
        elif self.objective.absent_strength:
            raise DataError(
                f"absent_strength is {self.objective.absent_strength}, which needs `allowed`: "
                "pass the targets each group may have, or set it to 0."
            )
        # Padding may hold anything, even NaN; a zero there can leak into nothing.
        logits = logits.masked_fill(~mask.unsqueeze(-1), 0.0)
        log_probabilities = logits.log_softmax(-1)
        column = targets.view(-1, 1, 1).expand(-1, logits.shape[1], 1)
        log_pair = log_probabilities.gather(-1, column).squeeze(-1).masked_fill(~mask, 0.0)
        weighting = self.objective.weighting
        if weighting is None or weighting.similarity.uses_probabilities:
            # A logit of -inf rules a target out; 0 * -inf in a divergence would be NaN, so its
            # probability counts as the smallest normal number there.
            ruled_out = log_probabilities.isneginf()
            tiny = torch.finfo(log_probabilities.dtype).tiny
            features = log_probabilities.masked_fill(ruled_out, math.log(tiny))
        elif features is None:
            features = logits
        features = features.masked_fill(~mask.unsqueeze(-1), 0.0)
        matching = Matching(log_pair, mask, features, log_probabilities)
        output = self.objective(matching, allowed=allowed, progress=progress)
        if self.quantifier is None:
            return output
        return output._replace(
            per_group=self._quantified(log_probabilities, mask, targets, allowed)
        )

    def _quantified(
        self, log_probabilities: Tensor, mask: Tensor, targets: Tensor, allowed: Tensor | None
    ) -> Tensor:
        n_targets = log_probabilities.shape[-1]
        labels = allowed
        if labels is None:
            labels = targets.unsqueeze(1) == torch.arange(n_targets, device=targets.device)
        named = [target for target in range(n_targets) if target != self.negative_target]
        free = [] if self.negative_target is None else [self.negative_target]
        if len(named) + len(free) != n_targets:
            raise DataError(
                f"negative_target {self.negative_target} is none of "
                f"{counted(n_targets, 'targets')}."
            )
        values, segments = log_probabilities[mask], Segments(mask.sum(-1))
        if self.quantifier == "label_set":
            return -log_set_likelihood(
                values[:, named + free], labels[:, named], segments, len(free)
            )
        log_match = values[:, named]
        found = presence(str(self.quantifier), log_match, log_complement(log_match), segments)
        return -log_label_likelihood(found, labels[:, named])


def _check_inputs(logits: Tensor, targets: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mask after making sure that the three arguments fit together."""
    if logits.dim() != 3:
        raise DataError(
            f"logits must have shape (groups, size, n_targets); got {tuple(logits.shape)}."
        )
    if mask is None:
        mask = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    if mask.dtype != torch.bool or mask.shape != logits.shape[:2]:
        raise DataError(
            f"mask must be boolean of shape {tuple(logits.shape[:2])}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}."
        )
    empty = (~mask.any(-1)).nonzero().flatten().tolist()
    if empty:
        found = counted(len(empty), "empty groups")
        raise EmptyGroupError(f"{found}, first at row {empty[0]}; drop them.")
    if targets.shape != logits.shape[:1] or targets.is_floating_point():
        raise DataError(
            f"targets must be {len(logits)} whole numbers; got {targets.dtype} of shape "
            f"{tuple(targets.shape)}."
        )
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < logits.shape[-1]:
        raise DataError(
            f"targets must lie in 0 .. {logits.shape[-1] - 1}, the width of the logits."
        )
    return mask


def _check_allowed(allowed: Tensor, targets: Tensor, n_targets: int) -> None:
    """Make sure that `allowed` is a row of truth values per group, true for its target."""
    shape = (len(targets), n_targets)
    if allowed.dtype != torch.bool or allowed.shape != shape:
        raise DataError(
            f"allowed must be boolean of shape {shape}; got {allowed.dtype} of shape "
            f"{tuple(allowed.shape)}."
        )
    is_ruled_out = ~allowed.gather(1, targets.long().unsqueeze(1)).squeeze(1)
    if is_ruled_out.any():
        row = int(is_ruled_out.nonzero()[0])
        raise DataError(
            f"allowed rules out target {int(targets[row])} of group {row} itself; a group may "
            "have the target it is labelled with."
        )
