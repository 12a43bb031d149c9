"""`groupnoise fit --out-of-core`: a click log of any size, trained on from windows on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.distributed.environment import is_first

if TYPE_CHECKING:
    from groupnoise.cli.holdout import Validate
    from groupnoise.io.datasets import ClickDataset

SHUFFLE_POOL = 1_000_000
"""Windows mixed at a time unless `shuffle_pool` says otherwise; 40 MB of memory."""


def open_log(
    data: str, setting: str | None, data_dir: Path | None, folder: Path, quiet: bool
) -> ClickDataset:
    """Return click histories that need not fit in memory; a log is converted inside `folder`."""
    from groupnoise.cli.data_convert import conversion_progress
    from groupnoise.cli.sources import find_data
    from groupnoise.clicks.streaming import clicks_on_disk
    from groupnoise.io.data_folder import is_data_folder
    from groupnoise.io.datasets import ClickDataset

    if setting == "rs" and not is_data_folder(data):
        with conversion_progress(quiet or not is_first()) as show:
            return clicks_on_disk(
                data,
                folder / "clicks",
                wait=not is_first(),
                report=partial(typer.echo, err=True),
                progress=show,
            )
    dataset, _ = find_data(data, setting, data_dir) if setting in (None, "rs") else (None, None)
    if not isinstance(dataset, ClickDataset):
        raise ParameterError(
            f"--out-of-core goes with click logs (rs); {data} is none. Bags are read from a folder "
            "that `groupnoise data convert` wrote with -p scaling=none."
        )
    return dataset


def cut_on_disk(
    dataset: ClickDataset, estimator: Any, folder: Path, share: float, seed: int, quiet: bool
) -> tuple[ClickDataset, Validate | None]:
    """Return the windows to train on, cut inside `folder`, and what scores an estimator."""
    from groupnoise.cli.data_convert import conversion_progress
    from groupnoise.cli.holdout import hold_out_some
    from groupnoise.clicks.streaming import windows_on_disk

    if estimator.shuffle_pool is None:
        estimator.set_params(shuffle_pool=SHUFFLE_POOL)
    held_out, validate = hold_out_some(dataset, share, seed)
    with conversion_progress(quiet or not is_first()) as show:
        windows = windows_on_disk(
            dataset.histories,
            folder / "windows",
            size=estimator.window_size,
            min_size=estimator.min_window,
            held_out=held_out,
            wait=not is_first(),
            progress=show,
        )
    return replace(dataset, histories=windows.groups, is_stray=None, notes={}), validate


@contextmanager
def explaining_lack_of_memory(data: str, folder: Path | None) -> Iterator[None]:
    """Turn a failed allocation inside the block into a sentence that says what to do."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch has no class of its own for it.
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        remedy = (
            "click logs (rs) are trained on from disk with --out-of-core DIR"
            if folder is None
            else "lower shuffle_pool, batch_size or dim with --param"
        )
        raise DataError(f"there is not enough memory to train on {data}; {remedy}.") from None
