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

    `features` (n_objects, n_features): what each object looks, reads or sounds like.
    `coordinates` (n_objects, 2): where it lies in the file.
    `n_dropped`: objects left out because they show nothing.
    """

    features: FloatArray
    coordinates: FloatArray
    n_dropped: int = 0


@dataclass(frozen=True)
class CutOptions:
    """How files are cut into objects.

    `size`: pixels of a tile, seconds of a segment; texts are cut into sentences.
    `stride`: from one object to the next.
    `background`: objects that vary less than this are left out: the standard deviation of the
        brightness of a tile, or the loudness of a segment, each from 0 to 1.
    `state`: what was learned from all files, such as the words of texts.
    """

    size: float
    stride: float
    background: float
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cuts nothing."""
        check_positive("size", self.size)
        check_positive("stride", self.stride)
        check_positive("background", self.background, allow_zero=True)
        if self.background >= 1:
            raise ParameterError(f"background must be below 1; got {self.background!r}.")


class RawKind(NamedTuple):
    """What is made of raw files of one kind.

    `feature_names`: what the numbers that describe an object are called, by how files are cut.
    `embed`: given a file, how it is cut, and an encoder of the user's own or None.
    """

    suffixes: tuple[str, ...]
    coordinate_names: tuple[str, str]
    usual: CutOptions
    feature_names: Callable[[CutOptions], tuple[str, ...]]
    embed: Callable[[Path, CutOptions, Callable[[Any], Any] | None], Embedded]
