"""Loading a data set by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from groupnoise._random import RandomState
from groupnoise.datasets._amil import load_amil
from groupnoise.datasets._containers import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.datasets._digits import load_digit_bags, load_digit_candidates
from groupnoise.datasets._file_forms import (
    load_bags_npz,
    load_candidates_mat,
    load_clicks,
    load_letter_words,
    load_movietweetings,
)
from groupnoise.datasets._letter_words import NONSENSE_TEXT, WALK_TEXT
from groupnoise.datasets._locations import locate_dataset
from groupnoise.datasets._registry import find_dataset
from groupnoise.datasets._shop import make_shop
from groupnoise.datasets._sival_like import make_sival_like
from groupnoise.exceptions import DataError, GroupNoiseError

Dataset = BagDataset | PartialLabelDataset | ClickDataset

_READ: dict[str, Callable[..., Dataset]] = {
    "amil": partial(load_amil, "SIVAL"),
    "bags-npz": load_bags_npz,
    "candidates-mat": load_candidates_mat,
    "clicks": load_clicks,
    "movietweetings": load_movietweetings,
}
"""Called with the path of each file."""

_DRAWN: dict[str, Callable[..., Dataset]] = {
    "digit-bags": load_digit_bags,
    "digit-candidates": load_digit_candidates,
    "letter-nonsense": partial(load_letter_words, text=NONSENSE_TEXT),
    "letter-walk": partial(load_letter_words, text=WALK_TEXT),
    "shop": make_shop,
    "sival-like": make_sival_like,
}
"""Called with the path of each file, if any, and `random_state`."""


def load_dataset(
    name: str,
    *,
    data_dir: str | Path | None = None,
    verify: bool = True,
    random_state: RandomState = 0,
) -> Dataset:
    """Load a data set of the registry.

    Parameters
    ----------
    name : str
        Its name or an alias; `list_datasets` has them all.
    data_dir : path, optional
        Searched before `GROUPNOISE_DATA`, `../shared/data` and the user's cache.
    verify : bool, default True
        Compare each file with its known checksum first.
    random_state : int, numpy generator or None, default 0
        Decides what is drawn in the sets that are drawn or generated.

    Returns
    -------
    BagDataset, PartialLabelDataset or ClickDataset
        By the setting of the set.

    Raises
    ------
    MissingDataError
        If a file is not there; the message says what to get, from where, and where to put it.
    DataError
        If a file is not what it should be.

    Examples
    --------
    >>> len(load_dataset("digit-bags").bags)
    300
    """
    entry = find_dataset(name)
    paths = locate_dataset(entry, data_dir, verify=verify)
    load = _READ.get(entry.form) or partial(_DRAWN[entry.form], random_state=random_state)
    try:
        dataset = load(*paths)
    except GroupNoiseError:
        raise
    except (ValueError, LookupError) as error:
        raise DataError(
            f"{paths[0]} is not of the form in which {entry.title} comes: {error!r}."
        ) from None
    return replace(dataset, name=entry.title)
