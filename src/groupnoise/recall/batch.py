"""Batch recall: a file of histories in, a file of recalled items out; interrupted runs resume."""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.checks import check_count, require
from groupnoise.core.threads import available_cores
from groupnoise.exceptions import DataError
from groupnoise.io.files import atomic_path, check_not_own_input, check_writable_file, write_json
from groupnoise.recall.history_files import HistoryBlock, count_histories, read_histories
from groupnoise.recall.items import ItemTable
from groupnoise.recall.model import Recalled, RecallModel
from groupnoise.recall.options import RecallOptions

ANSWER_FORMATS = (".parquet", ".csv", ".jsonl")
CSV_HEADER = ("user", "rank", "item", "score", "source")


def check_format(path: Path) -> None:
    """Refuse an output file whose ending says no format known here."""
    if path.suffix not in ANSWER_FORMATS:
        raise DataError(f"{path} must end in one of {', '.join(ANSWER_FORMATS)}.")
    if path.suffix == ".parquet":
        require("pyarrow", extra="data")


def write_part(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    """Write the answers to some histories, atomically, in the format the ending names."""
    writer = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_json}[path.suffix]
    with atomic_path(path) as temporary:
        writer(temporary, users, recalled, items)


def join_parts(parts: Sequence[Path], output: Path) -> None:
    """Write all parts as one file, atomically."""
    with atomic_path(output) as temporary:
        if output.suffix == ".parquet":
            _join_parquet(parts, temporary)
            return
        with temporary.open("wb") as target:
            if output.suffix == ".csv":
                target.write((",".join(CSV_HEADER) + "\r\n").encode())
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)


def _rows(
    users: Sequence[Any], recalled: Recalled, items: ItemTable
) -> Iterator[tuple[Any, list[Any], list[float], str]]:
    for number, user in enumerate(users):
        positions, scores = recalled.row(number)
        source = "popularity" if recalled.from_popularity[number] else "history"
        yield user, items.ids_of(positions), scores.tolist(), source


def _write_csv(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for user, ids, scores, source in _rows(users, recalled, items):
            for rank, (item, score) in enumerate(zip(ids, scores, strict=True), start=1):
                writer.writerow((user, rank, item, f"{score:.6g}", source))


def _write_json(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for user, ids, scores, source in _rows(users, recalled, items):
            row = {"user": user, "items": ids, "scores": scores, "source": source}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_parquet(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    pyarrow = require("pyarrow", extra="data")
    is_item = recalled.positions >= 0
    ends = is_item.sum(axis=1).cumsum()
    offsets = pyarrow.array([0, *ends.tolist()], pyarrow.int32())
    id_type = pyarrow.int64() if items.has_integer_ids else pyarrow.string()
    ids = pyarrow.array(items.ids_of(recalled.positions[is_item]), id_type)
    scores = pyarrow.array(recalled.scores[is_item], pyarrow.float32())
    sources = ["popularity" if popular else "history" for popular in recalled.from_popularity]
    table = pyarrow.table(
        {
            "user": pyarrow.array(users),
            "items": pyarrow.ListArray.from_arrays(offsets, ids),
            "scores": pyarrow.ListArray.from_arrays(offsets, scores),
            "source": pyarrow.array(sources, pyarrow.string()),
        }
    )
    require("pyarrow.parquet", extra="data").write_table(table, path)


def _join_parquet(parts: Sequence[Path], path: Path) -> None:
    parquet = require("pyarrow.parquet", extra="data")
    schema = parquet.read_schema(parts[0])
    with parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part).cast(schema))


BLOCK_HISTORIES = 4096

OnBlock = Callable[["BatchProgress"], None]


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch recall has come.

    Attributes
    ----------
    n_histories : int
        Histories answered so far, those of an interrupted run included.
    n_clicks, n_unknown : int
        Items in those histories, and how many the model does not know.
    n_by_popularity : int
        Histories without a known item.
    n_total : int, optional
        Histories in the file, where it says.
    seconds : float
        Time spent in this run.
    """

    n_histories: int = 0
    n_clicks: int = 0
    n_unknown: int = 0
    n_by_popularity: int = 0
    n_total: int | None = None
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
) -> BatchProgress:
    """Recall for every history of a file; memory stays bounded whatever its length.

    Answers are written in parts beside the output and joined at the end, so the output appears
    whole or not at all, and a run that was interrupted can go on where it stopped.

    Parameters
    ----------
    model : RecallModel
        From `open_artifact`.
    histories : path
        A parquet, CSV or JSON lines file.
    output : path
        Where to write; the ending (.parquet, .csv, .jsonl) decides the format.
    options : RecallOptions, optional
        How to recall.
    resume : bool
        Go on with an interrupted run of the same model, options and input.
    n_threads : int, optional
        Blocks answered at a time; by default one per core.
    on_block : callable, optional
        Called with a :class:`BatchProgress` after each block.
    """
    histories, output = Path(histories), Path(output)
    options = options or RecallOptions()
    check_format(output)
    check_not_own_input(output, histories)
    check_writable_file(output)
    n_threads = n_threads or available_cores()
    check_count("n_threads", n_threads)
    blocks = read_histories(histories, block_size=BLOCK_HISTORIES)
    first = next(blocks, None)  # most bad input shows here, before anything is written
    if first is None:
        raise DataError(f"{histories} holds no history.")
    parts = _Parts(output, _plan(model, histories, options), resume=resume)

    def answer(number: int, block: HistoryBlock) -> dict[str, int]:
        return parts.write(number, block, model, options)

    progress = BatchProgress(n_total=count_histories(histories))
    started = time.perf_counter()
    all_blocks = chain([first], blocks)
    # Blocks run side by side, so each must keep to one thread inside the matrix product.
    limited = require("threadpoolctl", extra="all").threadpool_limits(1)
    with parts.kept_if_useful(), limited, ThreadPoolExecutor(n_threads) as workers:
        for counts in _in_parallel(workers, n_threads, answer, all_blocks, parts.finished()):
            sums = {name: getattr(progress, name) + count for name, count in counts.items()}
            seconds = time.perf_counter() - started
            progress = BatchProgress(**{**asdict(progress), **sums, "seconds": seconds})
            if on_block is not None:
                on_block(progress)
    parts.join()
    return progress


def _in_parallel(
    workers: ThreadPoolExecutor,
    n_threads: int,
    answer: Callable[[int, HistoryBlock], dict[str, int]],
    blocks: Iterator[HistoryBlock],
    finished: dict[int, dict[str, int]],
) -> Iterator[dict[str, int]]:
    """Answer blocks on the workers, never reading far ahead; yield the counts of each."""
    running: set[Future[dict[str, int]]] = set()
    for number, block in enumerate(blocks):
        if number in finished:
            yield finished[number]
            continue
        running.add(workers.submit(answer, number, block))
        while len(running) > n_threads:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    for future in running:
        yield future.result()


class _Parts:
    """The parts of an output being written: answers, and beside each its counts."""

    def __init__(self, output: Path, plan: dict[str, Any], *, resume: bool) -> None:
        self._output = output
        self._folder = output.with_name(output.name + ".parts")
        plan_file = self._folder / "plan.json"
        if plan_file.exists() and not resume:
            raise DataError(
                f"{self._folder} holds an interrupted run; go on with --resume, or delete it."
            )
        if plan_file.exists() and json.loads(plan_file.read_text()) != plan:
            raise DataError(
                f"{self._folder} was begun with another artifact, input or options; delete it to "
                "start anew."
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(plan_file, plan)

    def finished(self) -> dict[int, dict[str, int]]:
        """Return the counts of every finished part by number."""
        counts = sorted(self._folder.glob("part-*.json"))
        return {int(path.stem.split("-")[1]): json.loads(path.read_text()) for path in counts}

    @contextmanager
    def kept_if_useful(self) -> Iterator[None]:
        """Remove the parts when the block fails, unless a later run can go on with them."""
        try:
            yield
        except BaseException as error:
            # Bad input has to be corrected, and the parts of another input are of no use.
            if isinstance(error, DataError) or not self.finished():
                shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def write(
        self, number: int, block: HistoryBlock, model: RecallModel, options: RecallOptions
    ) -> dict[str, int]:
        """Answer a block, write its part, then its counts, which mark it as finished."""
        positions = model.items.positions_of(block.clicks)
        histories = np.split(positions, block.offsets[1:-1])
        known = [history[history >= 0] for history in histories]
        recalled = model.recall_positions(known, [[] for _ in known], options)
        write_part(self._part(number), block.users, recalled, model.items)
        counts = {
            "n_histories": len(block),
            "n_clicks": len(positions),
            "n_unknown": int((positions < 0).sum()),
            "n_by_popularity": int(recalled.from_popularity.sum()),
        }
        write_json(self._folder / f"part-{number:06d}.json", counts)
        return counts

    def join(self) -> None:
        """Make one output of all parts and remove them."""
        join_parts([self._part(number) for number in sorted(self.finished())], self._output)
        shutil.rmtree(self._folder)

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number:06d}{self._output.suffix}"


def _plan(model: RecallModel, histories: Path, options: RecallOptions) -> dict[str, Any]:
    """Return what must be equal for a run to go on with the parts of another."""
    plan = {
        "artifact": model.version,
        "options": asdict(options),
        "histories": {"name": histories.name, "bytes": histories.stat().st_size},
        "block": BLOCK_HISTORIES,
    }
    as_written: dict[str, Any] = json.loads(json.dumps(plan))
    return as_written
