"""`groupnoise fit --out-of-core`: clicks or bags of any size, trained on from disk."""

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
    from groupnoise.cli.options import DataOptions
    from groupnoise.cli.sources import Found
    from groupnoise.core.arrays import IntArray
    from groupnoise.io.datasets import ClickDataset

SHUFFLE_POOL = 1_000_000
"""Windows mixed at a time unless `shuffle_pool` says otherwise; 40 MB of memory."""


def open_log(data: str, options: DataOptions, folder: Path, quiet: bool) -> Found:
    """Return click histories that need not fit in memory; a log is converted inside `folder`."""
    from groupnoise.cli.data_convert import conversion_progress
    from groupnoise.cli.sources import Found, find_data
    from groupnoise.clicks.streaming import clicks_on_disk
    from groupnoise.io.data_folder import is_data_folder
    from groupnoise.io.setting import find_setting

    clicks = find_setting("rs")
    if options.setting == clicks.name and not is_data_folder(data):
        with conversion_progress(quiet or not is_first()) as show:
            dataset = clicks_on_disk(
                data,
                folder / "clicks",
                wait=not is_first(),
                report=partial(typer.echo, err=True),
                progress=show,
                **options.given,
            )
        return Found(dataset, clicks, data, options=options.given, is_file=True)
    found = None
    if options.setting in (None, clicks.name):
        found = find_data(data, options)
    if found is None or found.setting is not clicks:
        raise ParameterError(
            f"--out-of-core goes with click logs (rs) and bags (mil) in files; {data} is neither."
        )
    return found


def open_bags(data: str, options: DataOptions, folder: Path) -> Found:
    """Return bags that need not fit in memory; files are copied once into `folder`."""
    from groupnoise.bags.on_disk import bags_on_disk
    from groupnoise.cli.sources import Found, check_columns
    from groupnoise.io.setting import find_setting

    setting = find_setting("mil")
    check_columns(setting, options)
    guesses: list[str] = []
    dataset = bags_on_disk(
        data, folder / "bags", wait=not is_first(), report=guesses.append, **options.given
    )
    if guesses:
        typer.echo("; ".join(guesses), err=True)
    return Found(dataset, setting, data, options=options.given, is_file=True)


def holds_bags(data: str, options: DataOptions) -> bool:
    """Tell whether DATA is files of bags, or a folder of bags that was converted."""
    from groupnoise.io.data_folder import is_data_folder, open_groups
    from groupnoise.io.datasets import BagDataset

    if is_data_folder(data):
        return isinstance(open_groups(data), BagDataset)
    return options.setting == "mil" and Path(data).exists()


def cut_on_disk(
    dataset: ClickDataset, estimator: Any, folder: Path, held_out: IntArray, quiet: bool
) -> ClickDataset:
    """Return the windows to train on, cut inside `folder`, without what is held out.

    A copy of the log without these clicks would be as large as the log, so they are left out where
    the windows are cut.
    """
    from groupnoise.cli.data_convert import conversion_progress
    from groupnoise.clicks.stored_windows import windows_on_disk

    if estimator.shuffle_pool is None:
        estimator.set_params(shuffle_pool=SHUFFLE_POOL)
    with conversion_progress(quiet or not is_first()) as show:
        windows = windows_on_disk(
            dataset.histories,
            folder / "windows",
            size=estimator.group_size,
            min_size=estimator.min_window,
            held_out=held_out,
            wait=not is_first(),
            progress=show,
        )
    return replace(dataset, histories=windows.groups, is_stray=None, notes={}, timestamps=None)


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
            "click logs (rs) and bags (mil) are trained on from disk with --out-of-core DIR"
            if folder is None
            else "lower shuffle_pool, batch_size or dim with --param"
        )
        raise DataError(f"there is not enough memory to train on {data}; {remedy}.") from None
