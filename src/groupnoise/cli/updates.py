"""`groupnoise fit --from`: update a model with new clicks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import DataOptions, echo_err
from groupnoise.cli.sources import LoadedData, load_data, read_item_table
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from groupnoise.core.arrays import IntArray
    from groupnoise.io.folders.training_record import TrainingRecord

MAX_COMPARED = 1000
"""Users whose clicks are compared in both logs."""
FEW_KNOWN, MANY_KNOWN = 0.1, 0.5
"""Share of trained histories below which a log is a different one, and above which its clicks were
trained on."""
FEW_OLD = 0.01
"""Share of clicks that may be older than the newest one trained on."""


def update_model(
    data: str,
    output: Path,
    options: DataOptions,
    *,
    model: Path,
    old: str | None,
    items: Path | None,
    decay: float,
    forget_items: Path | None,
    validation: float,
    seed: int,
) -> None:
    """Update a model with the clicks of a log, and save it."""
    import numpy as np

    from groupnoise.clicks.reading.oddities import lost_zeros_message
    from groupnoise.io.folders.model_files import load_model
    from groupnoise.io.folders.training_record import read_training_record, write_training_record
    from groupnoise.io.setting import find_setting
    from groupnoise.recall.lists import read_ids

    fitted = load_model(model)
    if not hasattr(fitted, "partial_fit"):
        raise ParameterError(
            f"--from goes with max-matching on clicks; {model} holds a {type(fitted).__name__}."
        )
    before = read_training_record(model)
    remembered = None if before is None else before.options
    read = partial(load_data, options=options, expected=find_setting("rs"), remembered=remembered)
    found = read(data)
    fingerprint = found.setting.fingerprint(found.dataset)
    _warn_of_learned(found, fingerprint, model, before)
    if lost := lost_zeros_message(found.dataset.item_ids, fitted.items_):
        echo_err(f"warning: {lost}: these become items of their own.")
    held_out = found.setting.hold_out(found.dataset, validation, seed)
    new = found.setting.without(found.dataset, held_out) if len(held_out) else found.dataset
    earlier = None
    if old is not None:
        learned_before = read(old)
        _check_old(learned_before, model, fitted.items_, before)
        if _ends_with(learned_before.dataset, new):
            echo_err(
                f"warning: --old {old} ends with the clicks of {data}, which count twice now; give "
                "the log of before alone, or one that ends before the new clicks begin."
            )
        earlier, before = _without_held_out(found.setting, learned_before.dataset, before)
    dataset, n_known = _join_logs(new, earlier)
    described = None
    if items is not None:
        known_items = np.union1d(fitted.items_.astype(str), dataset.item_ids.astype(str))
        described = read_item_table(items, known_items, found.options.get("item"))
    items_before, n_before = fitted.items_.tolist(), fitted.n_items_
    forget = () if forget_items is None else read_ids(forget_items)
    fitted.partial_fit(dataset, known=n_known, item_features=described, decay=decay, forget=forget)
    n_new = counted(int(dataset.histories.n_objects - n_known.sum()), "new clicks")
    n_items, is_same = counted(n_before, "items"), n_before == fitted.n_items_
    items_now = f"its {n_items} stay" if is_same else f"{n_items} became {fitted.n_items_}"
    if n_gone := len({*map(str, forget)} & {*map(str, items_before)}):
        items_now += f", {n_gone} forgotten"
    record = _record(found, dataset, fingerprint, held_out, before, (n_new, items_now))
    fitted.save(output)
    write_training_record(output, record)
    if items is not None:
        typer.echo(item_summary(items, fitted))
    kept = _held_out_words(found, len(held_out), len(record.held_before))
    typer.echo(f"{n_new} on {model}: {items_now}; saved to {output} ({kept})")


def _record(
    found: LoadedData,
    dataset: Any,
    fingerprint: str,
    held_out: IntArray,
    before: TrainingRecord | None,
    said: tuple[str, str],
) -> TrainingRecord:
    """Return the updated training record; `said`: phrases on clicks and items."""
    import numpy as np

    from groupnoise.io.folders.training_record import TrainingRecord, training_entry

    record = TrainingRecord.of(found.setting, dataset, np.zeros(0, dtype=np.int64), found.options)
    times = found.dataset.timestamps
    newest = None if times is None else float(np.max(times))
    entry = training_entry("updated with", found.source, *said)
    record = replace(record, added=[fingerprint], trainings=[entry], newest=newest).after(before)
    return _with_held_out(record, fingerprint, held_out)


def _with_held_out(record: TrainingRecord, fingerprint: str, held_out: IntArray) -> TrainingRecord:
    """Return the record with the held-out groups of this log added."""
    from groupnoise.io.folders.training_record import HeldOutOfLog

    held_before = dict(record.held_before)
    held_before.pop(fingerprint, None)  # it may be trained on again, completely
    if len(held_out):
        held_before[fingerprint] = HeldOutOfLog(held_out.tolist())
    return replace(record, held_before=held_before)


def _held_out_words(found: LoadedData, n_held_out: int, n_logs: int) -> str:
    """Return a phrase on held-out groups; `n_logs`: logs with any, this one included."""
    words = "nothing held out of it"
    if n_held_out:
        of = f"{n_held_out} of {counted(len(found.dataset.histories), found.setting.units)}"
        words = f"{found.setting.held_out_words.format(of)}, for `groupnoise evaluate`"
    return words + "; what was held out before stays so" * (n_logs > bool(n_held_out))


def _warn_of_learned(found: LoadedData, fingerprint: str, model: Path, before: Any) -> None:
    """Warn about clicks that were trained on before."""
    if before is None:
        return
    share = _share_known(found, before)
    if before.has_learned(fingerprint) or (share is not None and share > MANY_KNOWN):
        grown = "" if before.has_learned(fingerprint) else " most of"
        echo_err(
            f"warning: {model} has learned{grown} {found.source} already; its clicks count twice "
            "now. Give the new clicks alone, and the log of before as --old."
        )
        return
    times = found.dataset.timestamps
    n_old = 0 if times is None or before.newest is None else int((times <= before.newest).sum())
    if n_old > FEW_OLD * found.dataset.histories.n_objects:
        echo_err(
            f"warning: {n_old} of {counted(found.dataset.histories.n_objects, 'clicks')} of "
            f"{found.source} are not later than the newest that {model} has learned; those it has "
            "learned count twice now. Give the later ones alone."
        )


def _share_known(found: LoadedData, before: Any) -> float | None:
    """Return the share of recorded histories that a log has, None if none is recorded."""
    from groupnoise.io.folders.training_record import unpacked

    remembered = unpacked(before.trained)
    return found.setting.share_found(found.dataset, remembered) if len(remembered) else None


def _check_old(found: LoadedData, model: Path, known_items: Any, before: Any) -> None:
    """Refuse, or warn about, an --old log that is not the training log of the model."""
    import numpy as np

    if before is None or before.has_learned(found.setting.fingerprint(found.dataset)):
        return
    items = found.dataset.item_ids
    learned = f"{model} learned {before.name}, {counted(before.n_groups, 'histories')}"
    if not np.isin(items.astype(str), known_items.astype(str)).any():
        raise DataError(
            f"--old {found.source} is not the earlier log: {learned}, and knows none of the "
            f"{counted(len(items), 'items')} here, such as {items[0].item()!r}; give that log, or "
            "leave out --old."
        )
    share = _share_known(found, before)
    if share is not None and share < FEW_KNOWN:
        echo_err(
            f"warning: --old {found.source} is probably not the earlier log: {learned}, and "
            f"{'hardly any' if share else 'none'} of these is in it, unchanged or grown; its "
            "clicks count as learned anyway. Give the log of the training."
        )


def _ends_with(old: Any, new: Any) -> bool:
    """Tell whether most histories of a log end with the clicks of a new one."""
    row_of = {str(user): row for row, user in enumerate(old.user_ids.tolist())}
    found = []
    for row, user in enumerate(new.user_ids[:MAX_COMPARED].tolist()):
        later = new.item_ids[new.histories[row]].astype(str).tolist()
        known = row_of.get(str(user))
        earlier = [] if known is None else old.item_ids[old.histories[known]].astype(str).tolist()
        found.append(earlier[-len(later) :] == later)
    return bool(sum(found) > MANY_KNOWN * len(found))


def _without_held_out(setting: Any, old: Any, before: Any) -> tuple[Any, Any]:
    """Return the earlier log without its held-out clicks, and the training record.

    For a log that the model was not trained on, the record loses its held-out groups, which may be
    among its clicks.
    """
    if before is None:
        return old, None
    learned = before.of_log(setting.fingerprint(old))
    if learned is None:
        return old, replace(before, held_out=[], held_before={})
    if not learned.held_out:
        return old, before
    if learned.protocol:
        return setting.split_by_protocol(old, learned.protocol).train, before
    return setting.without(old, learned.rows), before


def item_summary(items: Path, fitted: Any) -> str:
    """Return a sentence on the item features used, and the items placed by them."""
    names = list(dict.fromkeys(repr(each.name) for each in fitted.feature_map_.columns))
    columns = ", ".join(names[:12]) + ", ..." * (len(names) > 12)
    n_new = int((fitted.popularity_ == 0).sum())
    placed = "every item was clicked, so none had to be placed by it"
    if n_new:
        placed = f"{counted(n_new, 'items')} of {fitted.n_items_}, without a click, placed by it"
    return f"{items}: learned from {columns} where items belong; {placed}"


def _join_logs(new: Any, old: Any) -> tuple[Any, Any]:
    """Return a data set of old and new clicks, and the number of old clicks per history."""
    import numpy as np

    from groupnoise.clicks.items.catalogue import Catalogue
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
