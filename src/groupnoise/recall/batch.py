"""Batch recall for a file of histories, in parts, so that interrupted runs can be resumed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.reading.log import Histories, is_log_of_rows, read_histories
from groupnoise.clicks.reading.oddities import lost_zeros_message, unknown_items_message
from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_count, require
from groupnoise.core.threads import available_cores
from groupnoise.exceptions import DataError
from groupnoise.io.columns.roles import read_like_training_file
from groupnoise.io.files import check_not_own_input, check_writable_file, new_folder, write_json
from groupnoise.io.folders.data_folder import is_data_folder
from groupnoise.io.tables.sources import Report, find_source
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions
from groupnoise.recall.recalled import CSV_HEADER, check_recall_format, join_parts, write_recalled

BLOCK_HISTORIES = 4096
IN_MEMORY_BYTES = 1 << 28
"""A log larger than this is sorted on disk."""

OnBlock = Callable[["BatchProgress"], None]


@dataclass(frozen=True)
class BatchProgress:
    """The progress of a batch recall.

    `n_histories`: histories answered so far, those of an interrupted run included.
    `n_clicks`, `n_unknown`: items in those histories, and how many the model does not know.
    `n_by_popularity`: histories without a known item.
    `n_unanswered`: histories for which no item was left.
    `n_total`: histories in the file.
    `seconds`: time spent in this run.
    """

    n_histories: int = 0
    n_clicks: int = 0
    n_unknown: int = 0
    n_by_popularity: int = 0
    n_unanswered: int = 0
    n_total: int = 0
    seconds: float = 0.0


def recall_file(
    model: RecallModel,
    histories: Path | str,
    output: Path | str,
    options: RecallOptions | None = None,
    *,
    resume: bool = False,
    n_threads: int | None = None,
    on_block: OnBlock | None = None,
    report: Report | None = None,
    remembered: Mapping[str, Any] | None = None,
    **columns: Any,
) -> BatchProgress:
    """Recall for every history of a file; memory stays bounded whatever its length.

    Answers are written in parts beside the output and joined at the end, so the output appears
    whole or not at all, and a run that was interrupted can be resumed where it stopped.

    Parameters
    ----------
    model : RecallModel
        From `open_artifact`.
    histories : path
        Whatever :func:`groupnoise.clicks.read_clicks` reads: a log with one row per click, in any
        order, or one row per history with a list of items. A log larger than 256 MB is put in
        order on disk, beside the output.
    output : path
        Where to write; the ending (.parquet, .csv, .jsonl) decides the format.
    options : RecallOptions, optional
        How to recall.
    resume : bool, default=False
        Resume an interrupted run of the same model, options and input.
    n_threads : int, optional
        Blocks answered at a time; by default one per core.
    on_block : callable, optional
        Called with a :class:`BatchProgress` after each block.
    report : callable, optional
        Called with a sentence for each guess about the file.
    remembered : dict, optional
        Columns of the log that the model learned, taken where the file has them too and `columns`
        does not say otherwise.
    **columns
        `user`, `item`, `time`, `rating`, `min_rating`, `only`, `date_order`, `format`, `separator`
        and `header`, as in :func:`groupnoise.clicks.read_clicks`.

    Returns
    -------
    BatchProgress
        Of the whole run.
    """
    output = Path(output)
    options = options or RecallOptions()
    check_recall_format(output)
    check_not_own_input(output, histories)
    check_writable_file(output)
    n_threads = n_threads or available_cores()
    check_count("n_threads", n_threads)
    given = {name: value for name, value in columns.items() if value is not None}
    parts = _Parts(
        output, _plan(model, histories, options, {**(remembered or {}), **given}), resume=resume
    )
    with parts.removed_on_failure():
        open_histories = partial(_open_histories, histories, parts.folder)
        requested, _ = read_like_training_file(open_histories, given, remembered or {}, report)
        if len(requested) == 0:
            raise DataError(f"{histories} holds no history.")
        # Every distinct item is looked up once, however often it was clicked.
        positions = model.items.positions_of(requested.item_ids)
        if report is not None:
            _report_unknown_items(report, model, requested.item_ids, positions)
        progress = _answer_all(parts, requested, positions, model, options, n_threads, on_block)
    parts.join()
    return progress


def _report_unknown_items(
    report: Report, model: RecallModel, item_ids: NDArray[Any], positions: IntArray
) -> None:
    """Warn of a log with no known item, or of ids that lost leading zeros."""
    if (positions >= 0).all():
        return
    known = np.array(model.items.ids_of(np.arange(len(model.items))))
    if (positions < 0).all():
        report(f"warning: {unknown_items_message(item_ids, known)}")
    elif lost := lost_zeros_message(item_ids, known):
        report(f"warning: {lost}.")


def _open_histories(
    source: Path | str, folder: Path, *, report: Report, **columns: Any
) -> Histories:
    """Return the histories of a file, in memory or, of a large log, in order on disk."""
    if is_data_folder(source):
        return read_histories(source)
    files = find_source(source, format=columns.get("format"), encoding=columns.get("encoding"))
    n_bytes = sum(files.size_of(path)[0] for path in files.paths)
    if n_bytes <= IN_MEMORY_BYTES or not is_log_of_rows(files, columns):
        return read_histories(source, report=report, **columns)
    from groupnoise.clicks.reading.streaming import convert_clicks

    place = folder / "clicks"
    if not is_data_folder(place):
        convert_clicks(source, place, report=report, **columns)
    return read_histories(place)


def _answer_all(
    parts: _Parts,
    histories: Histories,
    positions: IntArray,
    model: RecallModel,
    options: RecallOptions,
    n_threads: int,
    on_block: OnBlock | None,
) -> BatchProgress:
    """Answer block after block, several at a time."""

    def answer(number: int) -> dict[str, int]:
        first = number * BLOCK_HISTORIES
        rows = slice(first, min(first + BLOCK_HISTORIES, len(histories)))
        offsets = histories.offsets[rows.start : rows.stop + 1]
        clicks = positions[histories.items[offsets[0] : offsets[-1]]]
        users = histories.user_ids[rows].tolist()
        return parts.write(number, users, clicks, offsets - offsets[0], model, options)

    progress = BatchProgress(n_total=len(histories))
    started = time.perf_counter()
    n_blocks = -(-len(histories) // BLOCK_HISTORIES)
    # Blocks run side by side, so each must keep to one thread inside the matrix product.
    limited = require("threadpoolctl", extra="all").threadpool_limits(1)
    with limited, ThreadPoolExecutor(n_threads) as workers:
        for counts in _in_parallel(workers, n_threads, answer, n_blocks, parts.finished()):
            sums = {name: getattr(progress, name) + count for name, count in counts.items()}
            seconds = time.perf_counter() - started
            progress = BatchProgress(**{**asdict(progress), **sums, "seconds": seconds})
            if on_block is not None:
                on_block(progress)
    return progress


def _in_parallel(
    workers: ThreadPoolExecutor,
    n_threads: int,
    answer: Callable[[int], dict[str, int]],
    n_blocks: int,
    finished: dict[int, dict[str, int]],
) -> Iterator[dict[str, int]]:
    """Answer blocks on the workers, none far ahead of another; yield the counts of each."""
    running: set[Future[dict[str, int]]] = set()
    for number in range(n_blocks):
        if number in finished:
            yield finished[number]
            continue
        running.add(workers.submit(answer, number))
        while len(running) > n_threads:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    for future in running:
        yield future.result()


class _Parts:
    """The parts of an output being written: answers, and beside each its counts."""

    def __init__(self, output: Path, plan: dict[str, Any], *, resume: bool) -> None:
        self._output = output
        self._has_clicks = plan["options"]["interests"] is not None
        self.folder = output.with_name(output.name + ".parts")
        plan_file = self.folder / "plan.json"
        if plan_file.exists() and not resume:
            raise DataError(
                f"{self.folder} holds an interrupted run; resume with --resume, or delete it."
            )
        if plan_file.exists() and json.loads(plan_file.read_text()) != plan:
            raise DataError(
                f"{self.folder} was begun with another artifact, input or options; delete it to "
                "start over."
            )
        with new_folder(self.folder):
            write_json(plan_file, plan)

    def finished(self) -> dict[int, dict[str, int]]:
        """Return the counts of every finished part by number."""
        counts = sorted(self.folder.glob("part-*.json"))
        return {int(path.stem.split("-")[1]): json.loads(path.read_text()) for path in counts}

    @contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove the parts when the block fails, unless a later run can resume with them."""
        try:
            yield
        except BaseException as error:
            # Bad input has to be corrected, and the parts of another input are of no use.
            if isinstance(error, DataError) or not self.finished():
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def write(
        self,
        number: int,
        users: list[Any],
        positions: IntArray,
        offsets: IntArray,
        model: RecallModel,
        options: RecallOptions,
    ) -> dict[str, int]:
        """Answer a block, write its part, then its counts, which mark it as finished."""
        histories = np.split(positions, offsets[1:-1])
        known = [history[history >= 0] for history in histories]
        recalled = model.recall_positions(known, [[] for _ in known], options)
        write_recalled(self._part(number), users, recalled, model.items)
        counts = {
            "n_histories": len(users),
            "n_clicks": len(positions),
            "n_unknown": int((positions < 0).sum()),
            "n_by_popularity": int(recalled.from_popularity.sum()),
            "n_unanswered": int((recalled.positions < 0).all(axis=1).sum()),
        }
        write_json(self.folder / f"part-{number:06d}.json", counts)
        return counts

    def join(self) -> None:
        """Make one output of all parts and remove them."""
        parts = [self._part(number) for number in sorted(self.finished())]
        join_parts(parts, self._output, (*CSV_HEADER, "click") if self._has_clicks else CSV_HEADER)
        shutil.rmtree(self.folder)

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}{self._output.suffix}"


def _plan(
    model: RecallModel, histories: Path | str, options: RecallOptions, columns: dict[str, Any]
) -> dict[str, Any]:
    """Return the record that must be equal for a run to be resumed."""
    plan = {
        "artifact": model.version,
        "options": options.as_record(),
        "histories": {"name": Path(histories).name, "columns": columns},
        "block": BLOCK_HISTORIES,
    }
    if not is_data_folder(histories):
        files = find_source(histories, format=columns.get("format"))
        plan["bytes"] = [files.size_of(path)[0] for path in files.paths]
    return json.loads(json.dumps(plan))
