"""Tables from the result files of reproductions: methods down, data sets across."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from _record import markdown

NAMES = {
    "paper": "Max-Matching, `paper`",
    "ours": "**Max-Matching, `ours`**",
    "paper-mm": "MM, `paper`",
    "ours-mm": "**MM, `ours`**",
    "supervised": "trained on the truth",
    "pairwise-mlp": "pairwise, encoder of `ours`",
    "paper-mlp": "objective of `paper`, encoder of `ours`",
    "paper-over-labels": "`paper`, normalized over labels",
    "lr-truth": "logistic regression, trained on the truth",
    "cooccurrence": "co-occurrence, summed",
    "cooccurrence-last": "co-occurrence, last click",
    "item-cf": "item-CF, summed",
    "item-cf-last": "item-CF, last click",
}
ALL_SETS = "all sets"
MAX_COLUMNS = 8
OUTDATED = "†"
"""Marks a result with settings of an earlier recipe."""
UNSMOOTHED = "-unsmoothed"
"""Suffix of the rows without smoothing over neighbouring ages."""


def reproduction_table(
    result: dict[str, Any],
    *,
    metrics: Sequence[str] = ("accuracy",),
    criterion: str | None = None,
    datasets: Sequence[str] | None = None,
    is_ranked: bool = True,
) -> str:
    """Return a line per method and a column per data set, the metrics joined by a slash.

    A standard deviation stands beside a single metric. `criterion`: by what settings were chosen.
    Mean ranks mislead where methods lack trials.
    """
    chosen_by = criterion or result["criteria"][0]
    rows = [row for row in result["rows"] if row["criterion"] == chosen_by]
    columns = datasets or list(
        dict.fromkeys(row["dataset"] for row in rows if row["metric"] == metrics[0])
    )
    if not columns:
        return "*Not run yet.*"
    found = {(row["dataset"], row["method"], row["metric"]): row for row in rows}
    # Ranks are of the main figure, so they have no place beside others.
    is_main = is_ranked and not metrics[0].startswith("full ")
    ranks = {row["method"]: row["mean"] for row in rows if row["metric"] == "mean rank" and is_main}
    table = [["", *columns, *(["mean rank"] if ranks else [])]]
    for method in result["methods"]:
        if method.endswith(UNSMOOTHED):
            continue
        cells = [_cell([found.get((d, method, m)) for m in metrics], result) for d in columns]
        if ranks:
            cells.append(f"{ranks[method]:.2f}" if method in ranks else "")
        if any(cells):
            table.append([NAMES.get(method, method), *cells])
    if len(columns) > MAX_COLUMNS:  # levels of noise: they go down the page, methods across it
        table = [list(column) for column in zip(*table, strict=True)]
    table += _printed(result, metrics, columns, bool(ranks))
    return markdown(table[0], table[1:], _note(result, metrics, chosen_by))


OURS_IN_SOME_FORM = (
    "paper",
    "ours",
    "paper-mm",
    "ours-mm",
    "supervised",
    "paper-mlp",
    "paper-over-labels",
    "lr-truth",
    "ours-no-recipe",
)


def best_baseline_table(result: dict[str, Any], *, metric: str = "accuracy") -> str:
    """Return a line per data set: the paper's method, ours, and the best of all baselines.

    Methods with less than half of the trials of ours tell too little to be named; of `paper` fewer
    trials than of ours stand in brackets.
    """
    chosen = [
        row
        for row in result["rows"]
        if row["criterion"] == result["criteria"][0] and row["metric"] == metric
    ]
    rows = []
    for dataset in dict.fromkeys(row["dataset"] for row in chosen):
        here = {row["method"]: row for row in chosen if row["dataset"] == dataset}
        if "ours" not in here:
            continue
        least = here["ours"]["trials"] / 2
        found = {method: row["mean"] for method, row in here.items() if row["trials"] >= least}
        baselines = [m for m in found if m not in OURS_IN_SOME_FORM and not m.endswith(UNSMOOTHED)]
        best = max(baselines, key=lambda m: found[m])
        printed = result["published"].get(dataset, {}).get("paper", {}).get(metric)
        paper = f"{found['paper']:.3f}" if "paper" in found else ""
        if paper and here["paper"]["trials"] < here["ours"]["trials"]:
            paper += f" ({here['paper']['trials']})"
        old = result.get("outdated", [])
        paper += OUTDATED if f"{dataset} | paper" in old else ""
        ours, other = f"**{found['ours']:.3f}**", f"{found[best]:.3f} ({NAMES.get(best, best)})"
        rows.append([dataset, paper, ours, other, "" if printed is None else f"{printed:.3f}"])
    return markdown([metric, "`paper`", "`ours`", "best baseline", "paper, published"], rows)


def smoothing_table(result: dict[str, Any], *, dataset: str = "fg-net") -> str:
    """Return ages with and without the average over neighbours: a line per method."""
    found = {
        (row["method"], row["metric"]): row
        for row in result["rows"]
        if row["dataset"] == dataset and row["criterion"] == result["criteria"][0]
    }
    metrics = ("accuracy", "MAE3", "MAE5")
    rows = []
    for method in result["methods"]:
        both = [
            " / ".join(f"{found[name, metric]['mean']:.3f}" for metric in metrics)
            for name in (method, method + UNSMOOTHED)
            if (name, metrics[-1]) in found
        ]
        if len(both) == 2:
            n_trials = found[method, metrics[0]]["trials"]
            rows.append([NAMES.get(method, method), *both, n_trials])
    head = ["", "averaged over ages: exact / within 3 / within 5", "as learned", "trials"]
    return markdown(head, rows)


def budget_table(result: dict[str, Any]) -> str:
    """Return the cost of each method: fits, epochs of all fits, and seconds of a trial."""
    costs: dict[tuple[str, str], list[str]] = {}
    for line in result["trials"]:
        dataset, method, criterion, _, _, _, settings, cost, *_ = line.split(" | ")
        if criterion == result["criteria"][0]:
            costs.setdefault((dataset, method), []).append(_cost(method, settings, cost))
    columns = list(dict.fromkeys(dataset for dataset, _ in costs))
    rows = [
        [
            NAMES.get(method, method),
            *(_mean_cost(costs.get((each, method), [])) for each in columns),
        ]
        for method in dict.fromkeys(method for _, method in costs)
        if not method.endswith(UNSMOOTHED)
    ]
    note = "Fits / epochs of all fits and members / processor seconds."
    return markdown(["", *columns], rows, note)


def _cost(method: str, settings: str, cost: str) -> str:
    """Return fits, epochs and seconds of a trial, apart by spaces."""
    numbers = re.findall(r"[\d.]+", cost)
    if "epochs" in cost:
        return " ".join(numbers)
    # Before epochs were counted: every fit ran all of them, and ours has members inside a fit.
    chosen = ast.literal_eval(settings)
    inside = chosen.get("n_members", 1) if "weighting_strength" in chosen else 1
    return f"{numbers[0]} {int(numbers[0]) * chosen.get('max_epochs', 0) * inside} {numbers[-1]}"


def _mean_cost(costs: list[str]) -> str:
    if not costs:
        return ""
    columns = zip(*([float(number) for number in cost.split()] for cost in costs), strict=True)
    fits, epochs, seconds = (sum(column) / len(costs) for column in columns)
    return f"{fits:.0f} / {f'{epochs:.0f}' if epochs else '-'} / {seconds:.0f}"


def _cell(rows: Sequence[dict[str, Any] | None], result: dict[str, Any]) -> str:
    known = [row for row in rows if row is not None]
    if not known:
        return ""
    text = " / ".join(f"{row['mean']:.3f}" for row in known)
    if f"{known[0]['dataset']} | {known[0]['method']}" in result.get("outdated", []):
        text += OUTDATED
    n_trials = known[0]["trials"]
    if len(known) == 1 and n_trials > 1:
        text += f" ± {known[0]['std']:.3f}"
    return text if n_trials == len(result["seeds"]) else f"{text} ({n_trials})"


def _printed(
    result: dict[str, Any], metrics: Sequence[str], columns: Sequence[str], with_rank: bool
) -> list[list[str]]:
    """Return the published results of the methods that have any in these columns."""
    rows = []
    for method, name in (("paper-mm", "MM"), ("paper", "Max-Matching")):
        cells = []
        for dataset in columns:
            figures = result["published"].get(dataset, {}).get(method, {})
            cells.append(" / ".join(f"{figures[m]:.3f}" for m in metrics if m in figures))
        if any(cells):
            rows.append([f"*{name}, published*", *cells, *([""] if with_rank else [])])
    return rows


def _note(result: dict[str, Any], metrics: Sequence[str], criterion: str) -> str:
    seeds = result["seeds"]
    spread = " and standard deviation" if len(metrics) == 1 and len(seeds) > 1 else ""
    which = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    chosen = {"oracle": "true validation labels", "validation": "the validation part"}
    by = chosen.get(criterion, criterion.replace("_", " ") + ", which needs no labels")
    fewer = "; fewer trials in brackets" if result["is_partial"] else ""
    if result.get("outdated"):
        fewer += (
            f"; {OUTDATED} settings of an earlier recipe, which were fewer, and answers about ages "
            "as learned"
        )
    return (
        f"{' / '.join(metrics)}: mean{spread} over {which}{fewer}. "
        f"Settings chosen by {by}. `{result['reproduced_with']}`"
    )


def recall_search_table(result: dict[str, Any]) -> str:
    """Return the changes tried on Beauty, one line each, in order."""
    rows = [
        [row["change"], f"{row['fit_seconds']:.0f}", *_hit_and_ndcg(row["validation"])]
        for row in result["rows"]
        if row["dataset"] == "amazon-beauty-5core"
    ]
    head = ["", "seconds of a fit", "validation, 100 negatives", "validation, catalogue"]
    return markdown(head, rows)


def recall_test_table(result: dict[str, Any]) -> str:
    """Return the changes whose test clicks were looked at, validation clicks held out."""
    rows = [
        [f"{row['dataset']}, {row['change']}", *_hit_and_ndcg(row["test"])]
        for row in result["rows"]
        if "test" in row
    ]
    return markdown(["", "test, 100 negatives", "test, catalogue"], rows)


def _hit_and_ndcg(figures: dict[str, float]) -> list[str]:
    return [
        " / ".join(f"{figures[f'{among} {name}@10']:.4f}" for name in ("HIT", "NDCG"))
        for among in ("sampled", "full")
    ]


def normalisation_search_table(result: dict[str, Any]) -> str:
    """Return the effect of the second normalization: a line per data set and kind of candidates."""
    places: dict[str, dict[str, str]] = {}
    for row in result["rows"]:
        drawn = row["drawn"]
        kind = f"drawn, tau {drawn['tau']}" if drawn else "as they came"
        places.setdefault(f"{row['dataset']}, {kind}", {})[row["normalize"]] = _with_error(row)
    rows = [[place, cells["both"], cells["objects"]] for place, cells in places.items()]
    note = validation_note(result["seeds"])
    return markdown(["candidates", "over both", "over labels"], rows, note)


def background_cost_table(result: dict[str, Any]) -> str:
    """Return the effect of background: a line per temperature schedule."""
    cells: dict[str, dict[bool, str]] = {}
    for row in result["rows"]:
        course = "{:g} to {:g}".format(*row["temperature"])
        cells.setdefault(course, {})[row["background"]] = _with_error(row)
    rows = [[course, found[True], found[False]] for course, found in cells.items()]
    head = ["temperature", "bags as they are", "background taken out of training"]
    return markdown(head, rows, validation_note(result["seeds"]))


def candidate_search_table(result: dict[str, Any]) -> str:
    """Return the search on candidate labels: a line per data set and scaling."""
    courses = list(dict.fromkeys(tuple(row["temperature"]) for row in result["rows"]))
    places = dict.fromkeys((row["dataset"], row["scaling"]) for row in result["rows"])
    found = {(row["dataset"], row["scaling"], *row["temperature"]): row for row in result["rows"]}
    rows = [
        [f"{place[0]}, {place[1]}", *(_with_error(found[(*place, *each)]) for each in courses)]
        for place in places
    ]
    head = ["", *(f"temperature {start:g} to {end:g}" for start, end in courses)]
    return markdown(head, rows, validation_note(result["seeds"]))


def _with_error(row: dict[str, Any]) -> str:
    return f"{row['accuracy']:.3f} ± {row['standard_error']:.3f}"


def validation_note(seeds: list[int]) -> str:
    """Return the sentence under a table of a search."""
    return (
        f"Validation accuracy and its standard error, one member, seeds {seeds[0]} to {seeds[-1]}."
    )
