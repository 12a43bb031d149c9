"""Going on from yesterday's evidence: a grown catalogue, and a few more passes over clicks.

Training resumes from the vectors, biases and encoders as they stand, all members together as the
one model that answers, and decays towards yesterday's vectors instead of towards the initial ones.
How clicks are weighed by position is kept. A new item begins at the mean of the items it was
clicked with.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from groupnoise.clicks.evidence import Evidence, EvidenceModel
from groupnoise.clicks.evidence_options import ENCODER_DROPOUT, SPECTRAL_RATE, SPECTRAL_WINDOW
from groupnoise.clicks.history_windows import sliding_windows
from groupnoise.clicks.recurrence import Recurrence
from groupnoise.clicks.recurrence_training import RecurrentEncoder
from groupnoise.clicks.spectral import clicked_together
from groupnoise.core.arrays import FloatArray, torch_generator
from groupnoise.core.groups import Groups

NEIGHBOUR_SMOOTHING = 1.0
"""Added to how often a new item was clicked with others; keeps rare ones near the origin."""


class ResumedEvidence(EvidenceModel):
    """Evidence as a module again, to be trained further.

    Parameters
    ----------
    evidence : Evidence
        What was learned, of any number of members and regressions.
    generator : numpy Generator
        Decides what its encoders drop.
    """

    def __init__(self, evidence: Evidence, generator: np.random.Generator) -> None:
        length = evidence.position_weights.shape[1]
        super().__init__(evidence.objects, evidence.bias, history_length=length, shared=False)
        self._widths = evidence.block_widths
        self.n_blocks = len(self._widths)
        self.targets = nn.Parameter(torch.from_numpy(evidence.targets.copy()))
        with np.errstate(divide="ignore"):
            log_weights = np.log(evidence.position_weights)
        self.log_weights = nn.Parameter(torch.from_numpy(log_weights), requires_grad=False)
        exponents = torch.tensor(evidence.exponents, dtype=torch.float32)
        self.exponent_logits = nn.Parameter(exponents, requires_grad=False)
        if evidence.encoders:
            self.encoder = _Encoders(evidence.encoders, generator)  # type: ignore[assignment]
        self._read = evidence

    @property
    def block_widths(self) -> tuple[int, ...]:
        """How many dimensions each block has."""
        return self._widths

    @property
    def exponents(self) -> Tensor:
        """Of the sum of weights that each block is divided by, shape (blocks,)."""
        return self.exponent_logits.data

    @torch.no_grad()
    def evidence(self) -> Evidence:
        """Return what the model has learned, as arrays.

        Returns
        -------
        Evidence
        """
        readers: list[RecurrentEncoder]
        readers = self.encoder.readers if isinstance(self.encoder, _Encoders) else []
        return replace(
            self._read,
            objects=self.objects.numpy().copy(),
            targets=self.targets.numpy().copy(),
            bias=self.bias.numpy().copy(),
            encoders=tuple(
                replace(reader.as_arrays(torch.ones(reader.width)), begin=old.begin)
                for reader, old in zip(readers, self._read.encoders, strict=True)
            ),
        )


class _Encoders(nn.Module):
    """Several encoders, each of its own dimensions."""

    def __init__(self, encoders: tuple[Recurrence, ...], generator: np.random.Generator) -> None:
        super().__init__()
        self.begins = [encoder.begin for encoder in encoders]
        self.readers = [_reader(each, generator) for each in encoders]
        self.modules_ = nn.ModuleList(self.readers)  # torch looks for modules here

    def forward(self, features: Tensor) -> Tensor:
        """Return what every encoder adds, zero in the dimensions that none reads."""
        added = torch.zeros_like(features)
        for begin, reader in zip(self.begins, self.readers, strict=True):
            own = slice(begin, begin + reader.width)
            added[..., own] = reader(features[..., own])
        return added


def _reader(encoder: Recurrence, generator: np.random.Generator) -> RecurrentEncoder:
    reader = RecurrentEncoder(
        encoder.width,
        encoder.hidden,
        encoder.n_layers,
        encoder.length,
        dropout=ENCODER_DROPOUT,
        generator=torch_generator(generator),
    )
    weights = encoder.named_weights().items()
    reader.load_state_dict({name: torch.from_numpy(values.copy()) for name, values in weights})
    return reader


def grown(evidence: Evidence, histories: Groups, popularity: FloatArray) -> Evidence:
    """Return evidence of a grown catalogue, whose new items begin among their neighbours.

    Parameters
    ----------
    evidence : Evidence
        Of the first items of the catalogue.
    histories : Groups
        Item indices in time order, new items among them.
    popularity : ndarray of shape (n_items,)
        Clicks of every item, the new ones included.

    Returns
    -------
    Evidence
        A new item has the mean vectors of the items it was clicked with, which is zero where
        there are none, and the bias that items of its popularity have.
    """
    n_old, n_items = len(evidence.bias), len(popularity)
    if n_items == n_old:
        return evidence
    windows = sliding_windows(histories, SPECTRAL_WINDOW).groups
    together = clicked_together(windows, n_items, SPECTRAL_RATE)[n_old:, :n_old]
    weight = np.asarray(together.sum(axis=1)).ravel() + NEIGHBOUR_SMOOTHING

    def with_new(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        new = (together @ vectors) / weight[:, None]
        return np.concatenate([vectors, new.astype(np.float32)])

    clicks = np.log1p(popularity)
    slope, level = np.polyfit(clicks[:n_old], evidence.bias, 1) if n_old > 1 else (0.0, 0.0)
    bias = (level + slope * clicks[n_old:]).astype(np.float32)
    return replace(
        evidence,
        objects=with_new(evidence.objects),
        targets=with_new(evidence.targets),
        bias=np.concatenate([evidence.bias, bias]),
    )
