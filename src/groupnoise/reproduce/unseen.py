"""`reproduce unseen`: every method at its defaults on data that nobody tuned for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.candidates.setting import AMONG_CANDIDATES
from groupnoise.exceptions import GroupNoiseError, MissingDataError
from groupnoise.io.setting import setting_of
from groupnoise.pages import markdown_table
from groupnoise.reproduce.compare import (
    MAIN_METRICS,
    fit_quietly,
    make_estimator,
    methods_to_compare,
)
from groupnoise.reproduce.files import Repeated, parse_row, rerun_trial
from groupnoise.reproduce.methods import OURS
from groupnoise.reproduce.provenance import code_fingerprint, provenance
from groupnoise.reproduce.running import run_trials
from groupnoise.reproduce.unseen_sets import UnseenSet, read_unseen_sets

SHARE = 0.25
"""Share of bags and rows for testing; of every history the last click."""
TRAINING_ROWS = "accuracy on training rows"
"""Metric: how often the best candidate of a training row is its true label."""
MAX_USERS = 3000
QUICK_GROUPS = 120


@dataclass(frozen=True)
class UnseenResult:
    """The result of one method on one set under one seed.

    `seed`: of data, split and fit.
    `metrics`: on held-out groups; empty after a failure.
    `seconds`, `processor_seconds`: of fit and evaluation.
    `failed`: why there are no metrics.
    `provenance`: code, machine and time of the trial; older results have none.
    """

    dataset: str
    part: str
    setting: str
    method: str
    seed: int
    metrics: dict[str, float]
    seconds: float
    processor_seconds: float
    failed: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)


def run_unseen_trial(
    unseen: UnseenSet, method: str, seed: int, data_dir: Path | None, quick: bool
) -> UnseenResult:
    """Fit a method at its defaults on a set and evaluate it on held-out groups."""
    about = (unseen.name, unseen.part, unseen.setting, method, seed)
    data = unseen.load(seed, data_dir)
    setting = setting_of(data)
    generator = np.random.default_rng(seed)
    if quick and setting.n_groups(data) > QUICK_GROUPS:
        rows = generator.permutation(setting.n_groups(data))[:QUICK_GROUPS]
        data = setting.subset(data, np.sort(rows))
    # Of a log the last click of every user is a test target, of at most MAX_USERS users.
    share = 1.0 if setting.name == "rs" else SHARE
    rows = setting.hold_out(data, share, seed)
    training = setting.without(data, rows)
    if setting.name == "rs" and len(rows) > MAX_USERS:
        rows = np.sort(generator.choice(rows, MAX_USERS, replace=False))
    (entry,) = methods_to_compare(setting.name, [method])
    started, processor = time.perf_counter(), time.process_time()
    try:
        estimator = fit_quietly(setting, make_estimator(entry, seed), training)
        figures = dict(setting.evaluate(estimator, data, rows, seed=seed).metrics)
        if AMONG_CANDIDATES in figures:
            resolved = setting.evaluate(estimator, training, seed=seed).metrics[AMONG_CANDIDATES]
            figures[TRAINING_ROWS] = resolved
        failed = None
    except (GroupNoiseError, ValueError, MemoryError) as error:
        figures, failed = {}, str(error) or type(error).__name__
    return UnseenResult(
        *about,
        metrics=figures,
        seconds=round(time.perf_counter() - started, 2),
        processor_seconds=round(time.process_time() - processor, 2),
        failed=failed,
        provenance=provenance(setting.name),
    )


def run_unseen(
    sets: Sequence[UnseenSet],
    seeds: Sequence[int],
    *,
    methods: Sequence[str] = (),
    data_dir: Path | None = None,
    quick: bool = False,
    n_jobs: int | None = None,
    log: Path | None = None,
    on_result: Callable[[UnseenResult], None] | None = None,
) -> tuple[list[UnseenResult], dict[str, str]]:
    """Run all methods on all sets, except trials that the same code has logged before."""
    missing: dict[str, str] = {}
    trials: dict[Hashable, Callable[[], UnseenResult]] = {}
    for unseen in sets:
        try:
            unseen.load(seeds[0], data_dir)
        except MissingDataError as error:
            missing[unseen.name] = str(error)
            continue
        entries = methods_to_compare(unseen.setting)
        for name in [each.name for each in entries if not methods or each.name in methods]:
            for seed in seeds:
                trials[unseen.name, None, name, seed, code_fingerprint(unseen.setting)] = partial(
                    run_unseen_trial, unseen, name, seed, data_dir, quick
                )
    results = run_trials(trials, read=UnseenResult, log=log, n_jobs=n_jobs, on_result=on_result)
    return results, missing


def repeat_unseen(row: dict[str, Any], *, data_dir: Path | None, quick: bool) -> list[Repeated]:
    """Rerun a recorded trial, and return its metrics beside those of the record."""
    before = parse_row(UnseenResult, row)
    return rerun_trial(before, read_unseen_sets(), run_unseen, data_dir=data_dir, quick=quick)


@dataclass(frozen=True)
class UnseenSummary:
    """Ranks, wins and regret of the methods on the sets of one setting and part.

    `means`: for each set the mean of each method.
    `metrics`: the main metric of each set.
    `ranks`: mean rank of the methods that ran on all sets; 1 is best, ties share.
    `wins`: sets on which a method is best.
    `regret`: for each set the gap of ours to the best method; relative to the best on click logs.
    """

    setting: str
    part: str
    means: dict[str, dict[str, float]]
    metrics: dict[str, str]
    ranks: dict[str, float]
    wins: dict[str, int]
    regret: dict[str, float]


def summarise_unseen(results: Iterable[UnseenResult]) -> list[UnseenSummary]:
    """Return mean ranks, wins and regret of every setting and part, design sets first."""
    by_part: dict[tuple[str, str], list[UnseenResult]] = {}
    for each in results:
        by_part.setdefault((each.setting, each.part), []).append(each)
    parts = sorted(by_part, key=lambda part: (part[0], part[1] == "check"))
    found = (_summary(*part, by_part[part]) for part in parts)
    return [each for each in found if each is not None]


def _summary(setting: str, part: str, here: Sequence[UnseenResult]) -> UnseenSummary | None:
    """Return the summary of one setting and part; None if no method ran on all sets."""
    from scipy.stats import rankdata

    means: dict[str, dict[str, float]] = {}
    metrics: dict[str, str] = {}
    for name in dict.fromkeys(each.dataset for each in here):
        trials = [each for each in here if each.dataset == name and each.metrics]
        known = {metric for each in trials for metric in each.metrics}
        metric = next((each for each in MAIN_METRICS[setting] if each in known), None)
        if metric is not None:
            metrics[name] = metric
            means[name] = {
                method: float(np.mean([t.metrics[metric] for t in trials if t.method == method]))
                for method in dict.fromkeys(each.method for each in trials)
            }
    methods = [
        method
        for method in dict.fromkeys(each.method for each in here)
        if all(method in row for row in means.values())
    ]
    table = np.array([[row[method] for method in methods] for row in means.values()])
    if not table.size:
        return None
    ranks = np.mean([rankdata(-np.round(row, 4)) for row in table], axis=0)
    best = table.argmax(axis=1)
    return UnseenSummary(
        setting,
        part,
        means,
        metrics,
        ranks=dict(zip(methods, map(float, ranks), strict=True)),
        wins={method: int((best == column).sum()) for column, method in enumerate(methods)},
        regret={
            name: _regret(row, is_relative=setting == "rs")
            for name, row in means.items()
            if OURS in row
        },
    )


def _regret(values: Mapping[str, float], *, is_relative: bool) -> float:
    """Return the gap of ours to the best method."""
    top = max(values.values())
    gap = top - values[OURS]
    return gap / top if is_relative and top > 0 else gap


def unseen_markdown(summaries: Sequence[UnseenSummary]) -> str:
    """Return the summaries as Markdown tables, with the largest regret of ours."""
    lines: list[str] = []
    for summary in summaries:
        methods = sorted(summary.ranks, key=lambda name: summary.ranks[name])
        lines += [f"## {summary.setting}, {summary.part} sets", ""]
        lost = {name: gap for name, gap in summary.regret.items() if gap > 0}
        if lost:
            worst = ", ".join(f"{n} {g:.3f}" for n, g in sorted(lost.items(), key=lambda p: -p[1]))
            lines += [f"Behind the best method: {worst}.", ""]
        rows = [
            [
                name,
                *(_cell(row[each], max(row.values())) for each in methods),
                summary.metrics[name],
            ]
            for name, row in summary.means.items()
        ]
        rows.append(["mean rank", *(f"{summary.ranks[method]:.2f}" for method in methods), ""])
        rows.append(["wins", *(str(summary.wins[method]) for method in methods), ""])
        lines += [markdown_table(["", *methods, "figure"], rows), ""]
    return "\n".join(lines)


def _cell(value: float, top: float) -> str:
    text = "" if math.isnan(value) else f"{value:.3f}"
    return f"**{text}**" if value == top else text
