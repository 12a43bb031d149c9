"""Bags from raw files: pictures, texts and recordings cut into objects with built-in features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_positive
from groupnoise.exceptions import ParameterError


@dataclass(frozen=True)
class Embedded:
    """The objects of one file.

    `features` (n_objects, n_features): of the objects.
    `coordinates` (n_objects, 2): their positions in the file.
    `n_dropped`: how many objects were left out as background.
    """

    features: FloatArray
    coordinates: FloatArray
    n_dropped: int = 0


@dataclass(frozen=True)
class CutOptions:
    """How files are cut into objects.

    `size`: pixels of a tile, seconds of a segment; texts are cut into sentences.
    `stride`: distance from the start of one object to that of the next.
    `background`: threshold from 0 to 1 below which objects are left out: on the standard deviation
        of the brightness of a tile, or on the loudness of a segment.
    `state`: what was fitted to all files, such as the vocabulary of texts.
    """

    size: float
    stride: float
    background: float
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse sizes, strides and thresholds that are out of range."""
        check_positive("size", self.size)
        check_positive("stride", self.stride)
        check_positive("background", self.background, allow_zero=True)
        if self.background >= 1:
            raise ParameterError(f"background must be below 1; got {self.background!r}.")


class RawKind(NamedTuple):
    """How raw files of one kind are embedded.

    `defaults`: how they are cut by default.
    `feature_names`: the names of the built-in features, given how files are cut.
    `embed`: given a file, how it is cut, and an encoder of the user's own or None.
    """

    suffixes: tuple[str, ...]
    coordinate_names: tuple[str, str]
    defaults: CutOptions
    feature_names: Callable[[CutOptions], tuple[str, ...]]
    embed: Callable[[Path, CutOptions, Callable[[Any], Any] | None], Embedded]
