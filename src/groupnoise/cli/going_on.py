"""`groupnoise fit --from`: yesterday's model goes on with today's clicks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer

from groupnoise.cli.options import DataOptions
from groupnoise.exceptions import ParameterError


def go_on(
    data: str,
    output: Path,
    options: DataOptions,
    *,
    model: Path,
    old: str | None,
    items: Path | None,
    decay: float,
    forget_items: Path | None,
) -> None:
    """Update a model with the clicks of a log, and save it.

    `output`: model folder to write, which may be `model` itself.
    `options`: how both logs are read.
    `model`: the model to go on from.
    `old`: the log that was learned before.
    `items`: what is known of items.
    `decay`: multiplies earlier counts.
    `forget_items`: items to drop, one in each line.
    """
    from groupnoise.cli.sources import find_data
    from groupnoise.clicks.item_table import read_ids
    from groupnoise.io.model_files import load_model
    from groupnoise.io.training_record import (
        TrainingRecord,
        read_training_record,
        write_training_record,
    )

    fitted = load_model(model)
    if not hasattr(fitted, "partial_fit"):
        raise ParameterError(
            f"--from goes with max-matching on clicks; {model} holds a {type(fitted).__name__}."
        )
    before = read_training_record(model)
    if options.setting is None:
        options = replace(options, setting="rs") if Path(data).exists() else options
    found = find_data(data, options)
    fingerprint = found.setting.fingerprint(found.dataset)
    if before is not None and before.has_learned(fingerprint):
        typer.echo(
            f"warning: {model} has learned {data} already; its clicks count twice now. Give the "
            "new clicks alone, and the log of before as --old.",
            err=True,
        )
    earlier = None if old is None else find_data(old, options)
    dataset, n_known = _joined(found.dataset, None if earlier is None else earlier.dataset)
    ids = dataset.item_ids
    if fitted.items_.dtype.kind == "U" and ids.dtype.kind != "U":
        ids = ids.astype(np.str_)
    n_before = fitted.n_items_
    fitted.partial_fit(
        [ids[history] for history in dataset.histories],
        known=n_known,
        item_features=items,
        decay=decay,
        forget=() if forget_items is None else read_ids(forget_items),
    )
    record = TrainingRecord.of(found.setting, dataset, np.zeros(0, dtype=np.int64), found.options)
    record = replace(record, added=[fingerprint]).after(before)
    fitted.save(output)
    write_training_record(output, record)
    n_new = int(dataset.histories.n_objects - n_known.sum())
    typer.echo(
        f"{n_new} new clicks on {model}: {n_before} items became {fitted.n_items_}; "
        f"saved to {output} (nothing held out)"
    )


def _joined(new: Any, old: Any) -> tuple[Any, Any]:
    """Return one data set of old and new clicks, and how many of each history are old."""
    from groupnoise.clicks.catalogue import Catalogue
    from groupnoise.core.groups import Groups

    if old is None:
        return new, np.zeros(len(new.histories), dtype=np.int64)
    spell = partial(np.ndarray.astype, dtype=np.str_)
    text = new.item_ids.dtype.kind != old.item_ids.dtype.kind
    rows: dict[str, list[Any]] = {}
    n_known: dict[str, int] = {}
    for dataset in (old, new):
        ids = spell(dataset.item_ids) if text else dataset.item_ids
        for user, history in zip(dataset.user_ids.tolist(), dataset.histories, strict=True):
            rows.setdefault(str(user), []).append(ids[history])
        if dataset is old:
            n_known = {user: len(parts[0]) for user, parts in rows.items()}
    histories = [np.concatenate(parts) for parts in rows.values()]
    catalogue = Catalogue.of_histories(histories)
    indexed = catalogue.index(histories)
    joined = replace(
        new,
        histories=Groups(indexed.items, indexed.offsets),
        item_ids=catalogue.ids,
        user_ids=np.array(list(rows)),
        titles=None,
        categories=None,
        is_stray=None,
        source_rows=None,
        timestamps=None,
    )
    return joined, np.array([n_known.get(user, 0) for user in rows], dtype=np.int64)
