"""Tables of recommenders under protocols, and of replayed impressions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from _record import RESULTS, markdown

from groupnoise.reproduce.recall import PublishedRow, read_recall_sets

METHODS = {
    "popularity": "popularity",
    "item-cf": "item-CF",
    "item-knn": "item-kNN, decay chosen",
    "als": "ALS",
    "ease": "EASE",
    "sasrec": "SASRec",
    "lrurec": "LRURec",
    "max-matching": "default `fit`",
}
SAME_LOGS = {
    "ml-1m": "movielens-1m",
    "beauty full": "full beauty",
    **{name: name for name in ("beauty", "toys", "sports", "video", "movietweetings")},
}
"""From logs of the benchmark of plain fits to their names here."""
METRICS = (
    "full MRR@10",
    "full Recall@50",
    "full Recall@100",
    "full Recall@500",
    "coverage@10",
    "novelty@10",
    "Gini@10",
    "debiased HIT@10",
    "debiased NDCG@10",
)


def leave_one_out_table(result: dict[str, Any]) -> str:
    """One line per log: baselines, ours, and the best published result chosen on validation."""
    lines = []
    measured = _measured(result)
    for log in read_recall_sets():
        rows = [row for row in measured if _is(row, log.name, "leave_one_out")]
        if rows:
            lines.append([log.name, *_pairs(rows), _best(log.published)])
    return markdown(["log", *METHODS.values(), "published"], lines)


def chance_table(result: dict[str, Any]) -> str:
    """One line per log with a row in print: whether the users could have made the difference."""
    lines = []
    for log in read_recall_sets():
        rows = [r for r in _measured(result) if _is(r, log.name, "leave_one_out")]
        own = [row for row in rows if row["method"] == "max-matching"]
        printed = _best_row(log.published)
        if not own or printed is None:
            continue
        n_targets = next(row["counts"]["targets"] for row in rows if "counts" in row)
        hit = _mean(own, "full HIT@10")
        half = 1.96 * float(np.sqrt(hit * (1 - hit) / n_targets))
        gap = hit - printed.hit
        word = "within chance" if abs(gap) <= half else ("ahead" if gap > 0 else "behind")
        interval = f"{_short(hit - half)} to {_short(hit + half)}"
        published = f"{_short(printed.hit)} ({printed.method})"
        lines.append([log.name, n_targets, _short(hit), interval, published, word])
    head = ["log", "targets", "ours, HIT@10", "95 % over users", "published", ""]
    return markdown(head, lines)


def among_100_table(result: dict[str, Any]) -> str:
    """One line per log: last clicks among 100 items that their users never touched."""
    found = [row for row in result["rows"] if "among 100" in row and row["log"] in SAME_LOGS]
    methods = [m for m in METHODS if any(row["method"] == m for row in found)]
    lines = []
    for log in read_recall_sets():
        rows = [row for row in found if SAME_LOGS[row["log"]] == log.name]
        pairs = [[row["among 100"] for row in rows if row["method"] == m] for m in methods]
        cells = [
            " / ".join(_short(float(np.mean([p[k] for p in pair]))) for k in ("HIT@10", "NDCG@10"))
            if pair
            else ""
            for pair in pairs
        ]
        printed = [row for row in log.published if row.among != "the whole catalogue"]
        if rows:
            best = "; ".join(f"{_short(r.hit)} / {_short(r.ndcg)} ({r.method})" for r in printed)
            lines.append([log.name, *cells, best])
    return markdown(["log", *(METHODS[m] for m in methods), "published"], lines)


def time_split_table(result: dict[str, Any]) -> str:
    """One line per log and protocol other than leave-one-out."""
    lines = []
    for log in read_recall_sets():
        found = [row for row in _measured(result) if row["dataset"] == log.name]
        for protocol in dict.fromkeys(row["protocol"] for row in found):
            rows = [row for row in found if row["protocol"] == protocol]
            if protocol == "leave_one_out" and len({row["protocol"] for row in found}) == 1:
                continue
            targets = next(row["counts"]["targets"] for row in rows if "counts" in row)
            lines.append([log.name, f"`{protocol}`", targets, *_pairs(rows)])
    return markdown(["log", "protocol", "targets", *METHODS.values()], lines)


def metrics_table(result: dict[str, Any], log: str = "movietweetings") -> str:
    """One line per method on one log, leave-one-out: metrics of a recall stage."""
    lines = []
    for method, title in METHODS.items():
        rows = [r for r in result["rows"] if _is(r, log, "leave_one_out") and r["method"] == method]
        if rows:
            cells = [f"{_mean(rows, name):.3f}".replace("0.", ".", 1) for name in METRICS]
            lines.append([title, *cells])
    return markdown([log, *(name.removeprefix("full ") for name in METRICS)], lines)


def speed_table(result: dict[str, Any]) -> str:
    """Processor seconds to rank all targets of two large logs, and to list the best items too."""
    logs = list(dict.fromkeys(row["log"] for row in result["rows"]))
    lines = []
    for method in dict.fromkeys(row["method"] for row in result["rows"]):
        own = {row["log"]: row for row in result["rows"] if row["method"] == method}
        cells = [f"{own[log][name]:.1f} s" for log in logs for name in ("rank", "lists")]
        lines.append([method, *cells])
    return markdown(
        ["", *(each for log in logs for each in (f"{log}: ranks", "ranks and lists"))], lines
    )


def published_table(result: dict[str, Any]) -> str:
    """Every published result, with its source and the part it was chosen on."""
    lines = []
    for log in read_recall_sets():
        for row in log.published:
            chosen = "**test scores**" if row.chosen == "test" else row.chosen
            among = "" if row.among == "the whole catalogue" else f", among {row.among}"
            source = row.source + (f"; {row.note}" if row.note else "")
            figures = f"{_short(row.hit)} / {_short(row.ndcg)}"
            protocol = f"`{row.protocol}`{among}"
            lines.append([log.name, row.method, protocol, figures, chosen, source])
    head = ["log", "method", "protocol", "HIT@10 / NDCG@10", "chosen on", "source"]
    return markdown(head, lines)


def replay_table(result: dict[str, Any]) -> str:
    """One line per recommender: its estimated and its true click-through."""
    lines = []
    for method, row in result["summary"].items():
        shares = [f"{100 * row[f'{name}_holds_truth']:.0f} %" for name in ("snips", "ips")]
        values = [f"{row[name]:.4f}" for name in ("true", "snips", "ips")]
        gains = [f"{100 * row[name]:+.0f} %" for name in ("true_gain", "estimated_gain")]
        lines.append([method, *values, *gains, *shares])
    head = ["", "true click-through", "SNIPS", "IPS", "true gain over NeuralCF", "estimated gain"]
    return markdown([*head, "SNIPS interval right", "IPS interval right"], lines)


def _measured(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all rows; of those in both benchmarks, the one under all protocols."""
    had = {(r["dataset"], r["method"]) for r in result["rows"] if r["protocol"] == "leave_one_out"}
    plain = [row for row in _plain_fits() if (row["dataset"], row["method"]) not in had]
    return [*result["rows"], *plain]


def _plain_fits() -> list[dict[str, Any]]:
    """Return the rows of the benchmark of plain fits, which is leave-one-out over all users."""
    stored = json.loads((RESULTS / "unseen_clicks.json").read_text(encoding="utf-8"))["rows"]
    return [
        {
            "dataset": SAME_LOGS[row["log"]],
            "protocol": "leave_one_out",
            "method": row["method"],
            "seed": row["seed"],
            "metrics": {f"full {name}": value for name, value in row["test"].items()},
        }
        for row in stored
        if row["log"] in SAME_LOGS
    ]


def _is(row: dict[str, Any], log: str, protocol: str) -> bool:
    return bool(row["dataset"] == log and row["protocol"] == protocol)


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row["metrics"][name] for row in rows if name in row["metrics"]]))


def _pairs(rows: list[dict[str, Any]]) -> list[str]:
    """Return HIT and NDCG of each method, empty where it was not run."""
    cells = []
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        seeds = f" ({len(own)} seeds)" if len(own) > 1 else ""
        figures = [_short(_mean(own, f"full {name}@10")) for name in ("HIT", "NDCG") if own]
        cells.append(" / ".join(figures) + seeds)
    return cells


def _short(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _best(rows: tuple[PublishedRow, ...]) -> str:
    best = _best_row(rows)
    return "" if best is None else f"{_short(best.hit)} / {_short(best.ndcg)} ({best.method})"


def _best_row(rows: tuple[PublishedRow, ...]) -> PublishedRow | None:
    """Return the published row of the highest NDCG@10 that may be held against ours."""
    honest = [
        row
        for row in rows
        if row.protocol == "leave_one_out"
        and row.chosen != "test"
        and row.among == "the whole catalogue"
    ]
    return max(honest, key=lambda row: row.ndcg, default=None)
