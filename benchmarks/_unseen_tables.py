"""Tables of default fits on data that nobody tuned for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from _record import RESULTS, best_in_bold, markdown
from scipy.stats import rankdata

OURS = "max-matching"
METHODS = {
    "mil": (OURS, "milr", "mi-net", "attention-mil", "instance-lr"),
    "pll": (OURS, "soft-lr", "cc", "proden", "lws", "pl-svm", "pl-knn", "clpl"),
    "rs": (OURS, "popularity", "item-cf", "item-knn", "als", "ease", "sasrec"),
}
"""Methods compared on data that nobody tuned for, by setting."""

Figures = dict[str, dict[str, float]]
"""From the set to the figure of each method; larger is better."""


def unseen_table(bags: dict[str, Any]) -> str:
    """One line per figure: the mean rank of ours, of the next method, and where ours is behind."""
    del bags  # one of the files that are read
    shown = ("bags: instance AUROC", "bags: bag AUROC", "bags: bag accuracy", CANDIDATES, CLICKS)
    found = figures_of_recipe()
    return markdown(RANKED, (_ranked_row(title, found[title]) for title in shown))


def candidates_table(result: dict[str, Any]) -> str:
    """One line per check set, where ours loses most first; then ranks."""
    (found,) = (each for each in result["summaries"] if each["part"] == "check")
    means, ranks = found["means"], found["ranks"]
    ours = {each["dataset"]: each for each in result["trials"] if each["method"] == OURS}
    methods = [OURS, *sorted((name for name in ranks if name != OURS), key=ranks.__getitem__)]
    lines = []
    for name in sorted(means, key=lambda name: min(lead(means[name]), 0.0)):
        cells = best_in_bold([100 * means[name][each] for each in methods], ".1f")
        on_training_rows = 100 * ours[name]["metrics"]["accuracy on training rows"]
        cells += [f"{on_training_rows:.1f}", f"{ours[name]['processor_seconds']:.0f}"]
        lines.append([name, *cells])
    lines.append(["mean rank", *(f"{ranks[each]:.2f}" for each in methods), "", ""])
    head = ["set (check)", "ours", *methods[1:], "ours on training rows", "seconds of one core"]
    return markdown(head, lines)


DRAWS = {
    "first": ["later_sets"],
    "second": ["last_sets"],
    "third": ["keel_sets"],
    "fourth": ["keel_rest"],
    "fifth": ["mixed_sets", "small_sets", "odd_logs"],
    "sixth": ["text_sets"],
    "seventh": ["gloss_sets", "manual_sets"],
}
"""Draws of sets that nobody had used, and the result files in which each was run first."""


def later_table(result: dict[str, Any]) -> str:
    """One line per figure of the sets taken later, with all sets where ours is far behind."""
    lines = []
    for title, figures in figures_of_trials(result["trials"]).items():
        gaps = {name: max(values.values()) - values[OURS] for name, values in figures.items()}
        far = [f"{n} ({gaps[n]:.3f})" for n in sorted(gaps, key=lambda n: -gaps[n])]
        shown = ", ".join(far[: sum(gap > MAX_BEHIND for gap in gaps.values())])
        lines.append([*_ranked_row(title, figures), shown or "none"])
    return markdown([*RANKED, "more than two points behind"], lines)


def figures_of_trials(trials: list[dict[str, Any]]) -> dict[str, Figures]:
    """Return the mean of each method on each set, by the title of each figure that is there."""
    titles = {figure: f"bags: {title}" for figure, title in BAG_FIGURES.items()}
    titles |= {"accuracy": CANDIDATES, "full NDCG@10": CLICKS}
    found: dict[str, Figures] = {}
    for figure, title in titles.items():
        cells: dict[str, dict[str, list[float]]] = {}
        for trial in trials:
            if figure in trial["metrics"]:
                of_set = cells.setdefault(trial["dataset"], {})
                of_set.setdefault(trial["method"], []).append(trial["metrics"][figure])
        if cells:
            found[title] = {
                name: {method: float(np.mean(values)) for method, values in methods.items()}
                for name, methods in cells.items()
            }
    return found


def figures_of_draw(names: list[str]) -> dict[str, Figures]:
    """Return the figures of a draw, whose result files have these names."""
    found: dict[str, Figures] = {}
    for name in names:
        content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for title, figures in figures_of_trials(content["trials"]).items():
            found.setdefault(title, {}).update(figures)
    return found


def figures_of_recipe() -> dict[str, Figures]:
    """Return the figures of the sets that stand in the recipe."""
    bags, candidates, clicks = (
        json.loads((RESULTS / f"unseen_{name}.json").read_text(encoding="utf-8"))
        for name in ("bags", "candidates", "clicks")
    )
    found = {f"bags: {title}": _of_bags(bags, name) for name, title in BAG_FIGURES.items()}
    return {**found, CANDIDATES: _of_candidates(candidates), CLICKS: _of_clicks(clicks)}


def draws_table(result: dict[str, Any]) -> str:
    """One line per figure: the mean rank of ours on the recipe's sets and in every draw."""
    del result  # one of the files that are read
    columns = {"recipe sets": figures_of_recipe()}
    columns |= {f"{name} draw": figures_of_draw(files) for name, files in DRAWS.items()}
    lines = []
    for title in columns["recipe sets"]:
        cells = [""] * len(columns)
        for place, figures in enumerate(columns.values()):
            if title in figures:
                rank, others, n_sets = ranked(figures[title])
                bold = "**" * (rank <= min(others.values()))
                cells[place] = f"{bold}{rank:.2f}{bold} ({n_sets} sets)"
        lines.append([title, *cells])
    return markdown(["", *columns], lines)


def _of_bags(result: dict[str, Any], figure: str) -> Figures:
    figures: Figures = {}
    for row in result["rows"]:
        if figure in row:
            figures.setdefault(row["set"], {})[row["method"]] = row[figure]
    return figures


def _of_candidates(result: dict[str, Any]) -> Figures:
    return {name: means for each in result["summaries"] for name, means in each["means"].items()}


def _of_clicks(result: dict[str, Any]) -> Figures:
    return {
        log: {method: row["test"]["NDCG@10"] for method, row in rows.items()}
        for log, rows in _over_seeds(result["rows"]).items()
    }


def _over_seeds(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the row of each method on each log: its first seed's, with the means of all seeds."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        found.setdefault(row["log"], {}).setdefault(row["method"], []).append(row)
    order = dict.fromkeys(row["log"] for row in rows)
    return {
        log: {
            method: {
                **alike[0],
                "n_seeds": len(alike),
                "test": {
                    name: float(np.mean([row["test"][name] for row in alike]))
                    for name in ("HIT@10", "NDCG@10")
                },
            }
            for method, alike in found[log].items()
        }
        for log in order
    }


def ranked(figures: Figures) -> tuple[float, dict[str, float], int]:
    """Return the mean ranks of ours and of the others on shared sets, and their number."""
    shared = [values for values in figures.values() if OURS in values and len(values) > 1]
    methods = sorted(set.intersection(*map(set, shared)))
    ranks = np.mean([rankdata([-values[each] for each in methods]) for values in shared], axis=0)
    of_method = dict(zip(methods, map(float, ranks), strict=True))
    return of_method.pop(OURS), of_method, len(shared)


def lead(values: dict[str, float]) -> float:
    """Return by how much ours is ahead of the best other method of a set."""
    return values[OURS] - max(value for method, value in values.items() if method != OURS)


RANKED = ["", "sets", "methods", "mean rank, default `fit`", "runner-up", "first or tied"]
RANKED.append("largest gap")


def _ranked_row(title: str, figures: Figures) -> list[object]:
    """Rank the methods that were run on every set; compare ours with all that were run on each."""
    ours, others, n_sets = ranked(figures)
    runner_up = min(others, key=others.__getitem__)
    leads = {
        name: lead(values) for name, values in figures.items() if OURS in values and len(values) > 1
    }
    n_first = sum(each >= 0 for each in leads.values())
    worst = min(leads, key=leads.__getitem__)
    lost = f"{worst}, {-leads[worst]:.3f}" if leads[worst] < 0 else "none"
    next_one = f"{others[runner_up]:.2f} ({runner_up})"
    won = f"{n_first} of {n_sets}"
    return [title, n_sets, len(others) + 1, f"**{ours:.2f}**", next_one, won, lost]


def clicks_table(result: dict[str, Any]) -> str:
    """One line per log: baselines, ours with its choice, and the cost of its fit."""
    titles = ["popularity", "item-CF", "ALS", "EASE", "SASRec", "LRURec"]
    lines = []
    for log, rows in _over_seeds(result["rows"]).items():
        if OURS not in rows:
            continue
        ours = rows[OURS]
        best = max(row["test"]["NDCG@10"] for row in rows.values())
        cells = []
        for method in (*map(str.lower, titles), OURS):
            figures = rows[method]["test"] if method in rows else None
            pair = figures and [f"{figures[each]:.4f}"[1:] for each in ("HIT@10", "NDCG@10")]
            bold = "**" * bool(figures and figures["NDCG@10"] == best)
            n_seeds = rows[method]["n_seeds"] if method in rows else 1
            about = f" ({n_seeds} seeds)" if n_seeds > 1 else ""
            cells.append(f"{bold}{' / '.join(pair)}{bold}{about}" if pair else "")
        said = {line.split(":")[0]: line.partition(": ")[2].rstrip(".") for line in ours["said"]}
        linear = said.get("Linear evidence added", "none")
        taken = said["Taken"] + (f", and {linear}" if linear != "none" else "")
        seconds = ours.get("fit_cpu_seconds")
        price = "" if seconds is None else f"{seconds:.0f} s"
        lines.append([log, ours["split"], *cells, taken, price])
    head = ["log", "part", *titles, "default `fit`", "chosen", "processor time of the fit"]
    return markdown(head, lines)


BAG_FIGURES = {
    "instance AUROC": "instance AUROC",
    "instance average precision": "average precision",
    "instance balanced accuracy": "balanced accuracy",
    "instance accuracy": "accuracy of instances",
    "bag AUROC": "bag AUROC",
    "bag accuracy": "bag accuracy",
}
MAX_BEHIND = 0.02
CANDIDATES, CLICKS = "candidates: accuracy", "clicks: NDCG@10, whole catalogue"


def behind(rows: list[dict[str, Any]], figure: str) -> dict[str, float]:
    """Return by how much ours is behind the best baseline on each set; negative is ahead."""
    result = {}
    for name, values in _of_bags({"rows": rows}, figure).items():
        baselines = [value for method, value in values.items() if method != OURS]
        if OURS in values and baselines:
            result[name] = round(max(baselines) - values[OURS], 4)
    return result


def bag_ranks(bags: dict[str, Any]) -> str:
    """Mean rank of ours over all sets and over the check sets, and where it is behind."""
    rows, methods = bags["rows"], bags["methods"]
    check = {row["set"] for row in rows if row["part"] == "check"}
    lines = []
    for name, title in BAG_FIGURES.items():
        ranks = _ranks(rows, name, methods)
        of_check = {each: rank for each, rank in ranks.items() if each in check}
        lost = sorted(behind(rows, name).items(), key=lambda pair: -pair[1])
        far = ", ".join(f"{each} ({gap:.3f})" for each, gap in lost if gap > MAX_BEHIND)
        cells = [
            f"{np.mean(list(each.values()), axis=0)[methods.index(OURS)]:.2f} ({len(each)} sets)"
            for each in (ranks, of_check)
        ]
        lines.append([title, *cells, far or "none"])
    return markdown(["", "all sets", "check sets", "more than two points behind"], lines)


def bag_tables(bags: dict[str, Any]) -> str:
    """One table per figure, sets where ours is furthest behind first."""
    rows, methods = bags["rows"], bags["methods"]
    part = {row["set"]: row["part"] for row in rows}
    seeds = {row["set"]: len(row["seeds"]) for row in rows if row["method"] == OURS}
    tables: list[str] = []
    for name, title in BAG_FIGURES.items():
        figures = _of_bags(bags, name)
        lines = []
        for each, gap in sorted(behind(rows, name).items(), key=lambda pair: -pair[1]):
            cells = best_in_bold([figures[each].get(method) for method in methods])
            about = part[each] if seeds[each] == 1 else f"{part[each]}, {seeds[each]} seeds"
            lines.append([f"{each} ({about})", *cells, f"{gap:.3f}" if gap > 0 else ""])
        mean = np.mean(list(_ranks(rows, name, methods).values()), axis=0)
        lines.append(["mean rank", *(f"{rank:.2f}" for rank in mean), ""])
        tables += [f"**{title[0].upper()}{title[1:]}**", markdown(["", *methods, "behind"], lines)]
    return "\n\n".join(tables)


def _ranks(rows: list[dict[str, Any]], figure: str, methods: list[str]) -> dict[str, Any]:
    """Return the ranks of the methods on each set that all of them were run on; 1 is best."""
    return {
        each: rankdata([-values[method] for method in methods])
        for each, values in _of_bags({"rows": rows}, figure).items()
        if len(values) == len(methods)
    }


def bag_accuracy_table(result: dict[str, Any]) -> str:
    """Accuracy on whole bags beside the aim, which is bold where it is reached."""
    lines = []
    for row in result["rows"]:
        mark = "**" if row["reached"] else ""
        cells = [row["set"], f"{row['aim']:.2f}", f"{mark}{row['accuracy']:.3f}{mark}"]
        cells += [f"{row['AUROC']:.3f}", str(len(row["seeds"]))]
        lines.append(cells)
    return markdown(["", "target", "accuracy", "AUROC", "seeds"], lines)
