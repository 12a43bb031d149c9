"""Successive halving of a portfolio of options within a time budget."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from groupnoise.core.arrays import FloatArray, ProgressCallback
from groupnoise.decisions.portfolio import Option, Stopwatch
from groupnoise.decisions.record import Trial
from groupnoise.exceptions import CheckpointError, ParameterError, TrainingStopped
from groupnoise.io.files import write_json

Evaluate = Callable[[Option, Any], ArrayLike]
"""Scores an option with the resource of a rung: one value per fold or held-out group."""
TRIALS_FILE = "decisions.json"


class Search(NamedTuple):
    """What successive halving found.

    `ranking`: best first; those that reached further rungs stand before the others, failures are
        absent.
    `trials`: in the order they were made.
    `out_of_time`: whether the budget ended the search before all was tried.
    `seconds`: time spent, that of resumed trials included.
    """

    ranking: list[Option]
    trials: list[Trial]
    out_of_time: bool
    seconds: float


def successive_halving(
    options: Sequence[Option],
    evaluate: Evaluate,
    *,
    rungs: Sequence[Any] = (1.0,),
    keep: float = 0.5,
    budget: float | None = None,
    tie: float = 1.0,
    on_progress: ProgressCallback | None = None,
    resume_folder: Path | str | None = None,
    fingerprint: str = "",
) -> Search:
    """Rank options by held-out scores, giving more resources to the better ones.

    Result: the ranking, the trials, and whether time ran out.
    `options`: the portfolio, the safest first: the first is tried whatever the budget.
    `evaluate`: called with an option and the resource of a rung; returns one score per fold or per
        held-out group, larger is better. Options are compared score by score, so all must be judged
        on the same folds or groups. A mistake in it is recorded and ends that option only.
    `rungs`: the resource of each rung: a number of epochs, a share of the rows, a number of folds.
    `keep`: the share of options that goes on to the next rung; at least one does.
    `budget`: seconds of work after which no further trial is begun, and a trial that is expected to
        end later is not either. By default there is no limit.
    `tie`: standard errors of the difference by which an option must be behind to count as worse
        than the best; among those that do not, the simpler one stands first.
    `on_progress`: called with a record before and after each trial.
    `resume_folder`: where finished trials are saved, and read from where they are found.
    `fingerprint`: what tells one search from another; saved trials of another are refused.
    """
    if not options:
        raise ParameterError("a search needs at least one option.")
    if len({option.name for option in options}) < len(options):
        raise ParameterError("options of one search must have different names.")
    if not 0 < keep <= 1:
        raise ParameterError(f"keep must lie above 0 and at most 1; got {keep!r}.")
    run = _Run(evaluate, budget, on_progress, _Saved(resume_folder, fingerprint))
    alive, ranking = list(options), list(options)
    for rung, resource in enumerate(rungs):
        tried: list[Option] = []
        failed: list[Option] = []
        for number, option in enumerate(alive):
            must = rung == 0 and not tried
            if not must and run.is_late(rung):
                run.out_of_time = True
                break
            trial = run.trial(option, rung, resource, number, len(alive))
            (failed if trial.failed else tried).append(option)
        ranked = rank_options(tried, [run.scores[rung, option.name] for option in tried], tie)
        # What this rung says comes first; options it did not reach keep their earlier order.
        if rung == 0:
            ranking = ranked
        else:
            reached = {option.name for option in (*tried, *failed)}
            ranking = ranked + [each for each in ranking if each.name not in reached]
        alive = ranked[: max(1, math.ceil(keep * len(ranked)))]
        if run.out_of_time or not alive:
            break
    if not ranking:
        raise run.first_error or ParameterError("no option could be tried.")
    return Search(ranking, run.trials, run.out_of_time, run.spent())


def rank_options(
    options: Sequence[Option], scores: Sequence[FloatArray], tie: float = 1.0
) -> list[Option]:
    """Return options best first, the simplest first among those tied with the best."""
    left = sorted(zip(options, scores, strict=True), key=lambda pair: -float(np.mean(pair[1])))
    ranking = []
    while left:
        best = left[0][1]
        level = [pair for pair in left if is_tied(best, pair[1], tie)]
        chosen = min(level, key=lambda pair: (pair[0].complexity, -float(np.mean(pair[1]))))
        ranking.append(chosen[0])
        left = [pair for pair in left if pair[0] is not chosen[0]]
    return ranking


def explain_not_best(tried: Sequence[Trial], taken: str) -> list[str]:
    """Return a reason if an option other than the one taken has the highest score."""
    own = [trial for trial in tried if trial.option == taken and trial.score is not None]
    if not own:
        return []
    beside = [trial for trial in tried if trial.rung == own[-1].rung and trial.score is not None]
    best = max(beside, key=lambda trial: trial.score or 0.0)
    if not (best.score or 0.0) > (own[-1].score or 0.0):
        return []
    return [
        f"{best.option!r} scored higher ({best.score:.4f}, against {own[-1].score:.4f} of "
        f"{taken!r}), but not beyond the error of the comparison: of settings that are level the "
        "simpler one is taken."
    ]


def is_tied(best: FloatArray, other: FloatArray, tie: float) -> bool:
    """Return whether scores are within `tie` standard errors of the best."""
    if len(best) != len(other):
        return False
    behind = best - other
    return bool(behind.mean() <= tie * standard_error(behind))


def standard_error(values: FloatArray) -> float:
    """Return the standard error of a mean; zero for a single value, which has none."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


class _Saved:
    """Finished trials in a file, so that an interrupted search loses nothing."""

    def __init__(self, folder: Path | str | None, fingerprint: str) -> None:
        self.path = None if folder is None else Path(folder) / TRIALS_FILE
        self.fingerprint = fingerprint
        self.records: dict[str, Any] = {}
        if self.path is None or not self.path.exists():
            return
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            self.records, known = dict(found["trials"]), found["fingerprint"]
            for record in self.records.values():
                Trial(**record)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self.path} holds no saved trials ({error}); remove it to start over."
            ) from None
        if known != fingerprint:
            raise CheckpointError(
                f"{self.path} belongs to other data or settings; give another folder, or remove "
                "it to start over."
            )

    def find(self, key: str) -> Trial | None:
        return Trial(**self.records[key]) if key in self.records else None

    def add(self, key: str, trial: Trial) -> None:
        if self.path is None:
            return
        self.records[key] = trial.as_record(with_scores=True)
        write_json(self.path, {"fingerprint": self.fingerprint, "trials": self.records})


@dataclass
class _Run:
    """The trials of one search and the clock."""

    evaluate: Evaluate
    budget: float | None
    on_progress: ProgressCallback | None
    saved: _Saved

    def __post_init__(self) -> None:
        self.watch = Stopwatch()
        self.resumed = 0.0
        self.trials: list[Trial] = []
        self.scores: dict[tuple[int, str], FloatArray] = {}
        self.out_of_time = False
        self.first_error: Exception | None = None

    def spent(self) -> float:
        return self.resumed + self.watch.seconds()

    def is_late(self, rung: int) -> bool:
        if self.budget is None:
            return False
        alike = [trial.seconds for trial in self.trials if trial.rung == rung]
        return self.spent() + (sum(alike) / len(alike) if alike else 0.0) > self.budget

    def trial(self, option: Option, rung: int, resource: Any, number: int, of: int) -> Trial:
        report = {"option": option.name, "rung": rung, "trial": number + 1, "trials": of}
        if self.on_progress is not None:
            self.on_progress({"event": "trial", **report})
        key = f"{rung}: {option.name}"
        trial = self.saved.find(key)
        if trial is None:
            trial = self._try(option, rung, resource)
            self.saved.add(key, trial)
        else:
            self.resumed += trial.seconds
        self.trials.append(trial)
        self.scores[rung, option.name] = np.asarray(trial.scores, dtype=np.float64)
        if self.on_progress is not None:
            done = {"score": trial.score, "seconds": trial.seconds, "failed": trial.failed}
            self.on_progress({"event": "tried", **report, **done})
        return trial

    def _try(self, option: Option, rung: int, resource: Any) -> Trial:
        watch = Stopwatch()
        scores, failed = np.empty(0), None
        try:
            scores = np.atleast_1d(np.asarray(self.evaluate(option, resource), dtype=np.float64))
            if not scores.size or not np.isfinite(scores).all():
                failed = "its score is not a finite number"
        except TrainingStopped:
            raise
        except Exception as error:  # one bad option must not take the others with it
            self.first_error = self.first_error or error
            failed = str(error) or type(error).__name__
        return Trial(
            option=option.name,
            rung=rung,
            resource=resource,
            score=None if failed else float(scores.mean()),
            std_error=None if failed else standard_error(scores),
            seconds=watch.seconds(),
            failed=failed,
            scores=() if failed else tuple(scores.tolist()),
        )
