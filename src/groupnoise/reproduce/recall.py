"""`reproduce recall`: recommenders on logs under named protocols, with published results."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.words import counted
from groupnoise.exceptions import ConfigError, GroupNoiseError, MissingDataError
from groupnoise.io.files import parse_toml
from groupnoise.pages import markdown_table
from groupnoise.reproduce.compare import fit_quietly, make_estimator, methods_to_compare
from groupnoise.reproduce.files import Repeated, parse_row, rerun_trial
from groupnoise.reproduce.methods import import_class
from groupnoise.reproduce.provenance import code_fingerprint, provenance
from groupnoise.reproduce.running import run_trials

DEFAULT_PROTOCOLS = ("leave_one_out",)
QUICK_PROTOCOLS = ("leave_one_out", "time:0.9", "cold_users")
QUICK_METHODS = ("max-matching", "popularity", "item-cf", "ease")
QUICK_USERS = 150
QUICK_BUDGET = 2.0
"""Budget in seconds of a default fit in quick runs."""
MAIN = ("full HIT@10", "full NDCG@10")
HEAD = ("method", "HIT@10", "NDCG@10", "Recall@100", "coverage@10", "debiased NDCG@10", "seeds")


@dataclass(frozen=True)
class PublishedRow:
    """A published result on a log.

    `method`, `protocol`: of the result.
    `source`: the publication.
    `chosen` (one of "validation", "test", "unknown"): the part that hyperparameters were chosen on.
    `among`: the items that the target was ranked among.
    `note`: anything else to know.
    """

    method: str
    hit: float
    ndcg: float
    protocol: str
    source: str
    chosen: str = "unknown"
    among: str = "the whole catalogue"
    note: str = ""


@dataclass(frozen=True)
class RecallSet:
    """A log of the benchmark."""

    name: str
    source: str
    published: tuple[PublishedRow, ...] = ()

    def load(self, seed: int, data_dir: Path | None, quick: bool) -> Any:
        """Return the log; the seed decides what is simulated, and a quick one is small."""
        from groupnoise.clicks.shop import make_shop
        from groupnoise.io.named import load_dataset
        from groupnoise.reproduce.unseen_sets import shuffle_histories

        if self.source.startswith("shop"):
            shop = make_shop(QUICK_USERS if quick else 2000, random_state=seed)
            if self.source != "shop":
                shop = shuffle_histories(shop, np.random.default_rng(seed))
            return replace(shop, name=self.name)
        return replace(load_dataset(self.source, data_dir=data_dir), name=self.name)


@dataclass(frozen=True)
class RecallTrial:
    """The result of one method on one log under one protocol and seed.

    `metrics`, `validation`: on test and on validation targets.
    `intervals`: ends of the intervals over users.
    `counts`: of users, targets and special cases.
    `fit_seconds`, `rank_seconds`: processor time of the fit, and of ranking the targets.
    `failed`: why there are no metrics.
    `provenance`: code, machine and time of the trial; older rows have none.
    """

    dataset: str
    protocol: str
    method: str
    seed: int
    metrics: dict[str, float] = field(default_factory=dict)
    validation: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    fit_seconds: float = 0.0
    rank_seconds: float = 0.0
    failed: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)


def read_recall_sets(path: Path | None = None) -> list[RecallSet]:
    """Return the logs of a file, by default those of the package."""
    if path is None:
        text = resources.files("groupnoise.reproduce").joinpath("recall.toml").read_text("utf-8")
    else:
        text = path.read_text(encoding="utf-8")
    try:
        return [
            RecallSet(
                table["name"],
                table["source"],
                tuple(PublishedRow(**row) for row in table.get("published", ())),
            )
            for table in parse_toml(text).get("set", [])
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the logs of `recall` cannot be read: {error}.") from None


def run_recall_trial(
    log: RecallSet, protocol: str, method: str, seed: int, data_dir: Path | None, quick: bool
) -> RecallTrial:
    """Fit a method at its defaults on the training clicks of a protocol, and rank its targets."""
    from groupnoise.clicks.evaluation.evaluate import evaluate_queries
    from groupnoise.clicks.evaluation.history_split import split_histories
    from groupnoise.io.setting import find_setting

    about = RecallTrial(log.name, protocol, method, seed)
    try:
        data = log.load(seed, data_dir, quick)
        split = split_histories(data, protocol)
        (entry,) = methods_to_compare("rs", [method])
        estimator = make_estimator(entry, seed)
        if quick and "budget" in estimator.get_params():
            estimator.set_params(budget=QUICK_BUDGET)
        started = time.process_time()
        fit_quietly(find_setting("rs"), estimator, split.train)
        fitted = time.process_time()
        found = evaluate_queries(estimator, data, split.test, counts=split.counts, seed=seed)
        ranked = time.process_time()
        validation = {}
        if split.validation is not None and not split.protocol.trains_validation:
            validation = evaluate_queries(estimator, data, split.validation, seed=seed).metrics
    except (GroupNoiseError, ValueError, MemoryError) as error:
        failed = str(error) or type(error).__name__
        return replace(about, failed=failed, provenance=provenance("rs"))
    return replace(
        about,
        metrics=_rounded(found.metrics),
        validation={name: value for name, value in _rounded(validation).items() if name in MAIN},
        intervals={name: [round(end, 4) for end in ends] for name, ends in found.intervals.items()},
        counts=found.counts,
        fit_seconds=round(fitted - started, 1),
        rank_seconds=round(ranked - fitted, 1),
        provenance=provenance("rs"),
    )


def run_recall(
    sets: Sequence[RecallSet],
    seeds: Sequence[int],
    *,
    protocols: Sequence[str] = DEFAULT_PROTOCOLS,
    methods: Sequence[str] = (),
    data_dir: Path | None = None,
    quick: bool = False,
    n_jobs: int | None = None,
    log: Path | None = None,
    on_result: Callable[[RecallTrial], None] | None = None,
) -> tuple[list[RecallTrial], dict[str, str]]:
    """Run methods on logs under protocols, except trials that the same code has logged before.

    Returns `results`; `missing`: logs, or logs under a protocol, that were left out, and why.
    `seeds`: one fit each; deterministic methods on logs that are not simulated use the first.
    `protocols`: of the splits; a log without timestamps is left out of time splits.
    """
    missing: dict[str, str] = {}
    trials: dict[Hashable, Callable[[], RecallTrial]] = {}
    entries = methods_to_compare("rs", methods)
    for each in sets:
        try:
            data = each.load(seeds[0], data_dir, quick)
        except MissingDataError as error:
            missing[each.name] = str(error)
            continue
        for protocol in protocols:
            if protocol.startswith("time") and data.timestamps is None:
                missing[f"{each.name} under {protocol}"] = "the log does not say when clicks were"
                continue
            for entry in entries:
                draws = "random_state" in import_class(entry)().get_params()
                is_fixed = not draws and not each.source.startswith("shop")
                for seed in seeds[:1] if is_fixed else seeds:
                    key = (each.name, protocol, entry.name, seed, code_fingerprint("rs"))
                    trials[key] = partial(
                        run_recall_trial, each, protocol, entry.name, seed, data_dir, quick
                    )
    results = run_trials(trials, read=RecallTrial, log=log, n_jobs=n_jobs, on_result=on_result)
    return results, missing


def repeat_recall(row: dict[str, Any], *, data_dir: Path | None, quick: bool) -> list[Repeated]:
    """Rerun a recorded trial, and return its metrics beside those of the record."""
    before = parse_row(RecallTrial, row)
    return rerun_trial(
        before,
        read_recall_sets(),
        run_recall,
        place=f"{before.dataset}, {before.protocol}",
        protocols=[before.protocol],
        data_dir=data_dir,
        quick=quick,
    )


def recall_markdown(results: Iterable[RecallTrial], sets: Sequence[RecallSet]) -> str:
    """Return a Markdown table for every log and protocol, published results below ours.

    Those chosen on test scores are marked.
    """
    found = list(results)
    published = {each.name: each.published for each in sets}
    lines: list[str] = []
    for name, protocol in dict.fromkeys((each.dataset, each.protocol) for each in found):
        here = [each for each in found if (each.dataset, each.protocol) == (name, protocol)]
        n_targets = {each.counts["targets"] for each in here if "targets" in each.counts}
        about = f" ({counted(max(n_targets), 'targets')})" if n_targets else ""
        measured = {
            method: [each for each in here if each.method == method and each.metrics]
            for method in dict.fromkeys(each.method for each in here)
        }
        measured = {method: trials for method, trials in measured.items() if trials}
        ranked = sorted(measured, key=lambda method: -_mean(measured[method], "full NDCG@10"))
        rows = [_row(method, measured[method]) for method in ranked]
        rows += [
            _published_row(row)
            for row in published.get(name, ())
            if row.protocol == protocol and row.among == "the whole catalogue"
        ]
        lines += [f"## {name}, {protocol}{about}", "", markdown_table(HEAD, rows)]
        failed = {each.method: each.failed for each in here if each.failed is not None}
        lines += ["", *(f"{method}: {reason}" for method, reason in failed.items())]
        lines.append("")
    return "\n".join(lines)


def _row(method: str, trials: Sequence[RecallTrial]) -> list[object]:
    cells = []
    for name in (*MAIN, "full Recall@100", "coverage@10", "debiased NDCG@10"):
        cell = f"{_mean(trials, name):.4f}"
        ends = [each.intervals[name] for each in trials if name in each.intervals]
        if ends:
            low, high = np.mean(ends, axis=0)
            cell += f" [{low:.4f}, {high:.4f}]"
        cells.append(cell)
    return [method, *cells, len(trials)]


def _published_row(row: PublishedRow) -> list[object]:
    details = [row.source]
    if row.chosen == "test":
        details.append("**a maximum over test scores**")
    if row.note:
        details.append(row.note)
    return [
        f"*{row.method}* ({'; '.join(details)})",
        f"{row.hit:.4f}",
        f"{row.ndcg:.4f}",
        *[""] * 4,
    ]


def _mean(trials: Sequence[RecallTrial], name: str) -> float:
    return float(np.mean([each.metrics.get(name, np.nan) for each in trials]))


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in metrics.items()}
