"""Tables of docs/evidence.md: ablations, published folds, and significance of differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from _record import markdown
from _reproduction_tables import NAMES, OURS_IN_SOME_FORM, UNSMOOTHED

from groupnoise.reproduce.files import read_trial_line
from groupnoise.reproduce.report.tables import PairedDifference, corrected_t_test, holm

MAX_P = 0.05
TEST_TO_TRAIN = 1 / 8
"""Of splits 8:1:1."""


def ablation_table(result: dict[str, Any]) -> str:
    """Return a line per part and a column per data set: the loss of the metric without it."""
    rows = result["rows"]
    sets = list(dict.fromkeys(row["set"] for row in rows))
    found = {(row["set"], row["part"]): row for row in rows}
    parts = [part for part in dict.fromkeys(row["part"] for row in rows) if part != "whole"]
    lines = [["the whole", *(f"{found[name, 'whole']['mean']:.3f}" for name in sets), ""]]
    for part in parts:
        own = [found.get((name, part)) for name in sets]
        cells = ["" if row is None else _points(row) for row in own]
        known = [row["brings"] for row in own if row is not None]
        lines.append([part, *cells, f"{100 * sum(known) / len(known):+.1f}"])
    seeds = result["seeds"]
    n_seeds = {row["n_seeds"] for row in rows}
    note = (
        "Below the first line: points of accuracy (shop: NDCG@10) that are lost when the part is "
        "replaced as said; a minus says that it is better without. Bold: "
        f"p < {MAX_P} ({result['test']}). Seeds {seeds[0]} to {seeds[-1]}, at least "
        f"{min(n_seeds)} on every set. `{result['command']}`"
    )
    return markdown(["", *sets, "mean"], lines, note)


def _points(row: dict[str, Any]) -> str:
    text = f"{100 * row['brings']:+.1f}"
    return f"**{text}**" if row["p"] < MAX_P else text


def folds_table(result: dict[str, Any]) -> str:
    """Return accuracy on new and training rows in the folds of VI-PLL, with published results."""
    names = {"recipe": "**`ours`, recipe**", "plain": "**`ours`, default `fit`**"}
    sets = list(result["published"])
    lines = []
    for method, words in names.items():
        own = {row["set"]: row for row in result["rows"] if row["method"] == method}
        lines.append([words, *(_fold_cell(own.get(name)) for name in sets)])
    for method in result["published"][sets[0]]:
        parts = [result["published"][name][method] for name in sets]
        cells = [f"{each['new rows']:.3f} / {each['training rows']:.3f}" for each in parts]
        lines.append([f"*{method}, published*", *cells])
    gaps = [each for each in result["differences"] if each["method"] == "plain"]
    n_sure = sum(each["p"] < MAX_P and each["mean"] > 0 for each in gaps)
    n_lost = sum(each["p"] < MAX_P and each["mean"] < 0 for each in gaps)
    first = [each for each in gaps if each["against"] == "VI-PLL"]
    from_it = ", ".join(f"{each['set']} {each['mean']:+.3f} (p {each['p']:.2f})" for each in first)
    return markdown(
        ["", *sets],
        lines,
        f"New rows / training rows. {result['protocol']}. Published: {result['published_source']}. "
        f"A default fit on the new rows of the same folds, {result['test']}: ahead at p < {MAX_P} "
        f"in {n_sure} of {len(gaps)}, behind in {n_lost}; from VI-PLL {from_it}. "
        f"`{result['command']}`",
    )


def ten_folds_table(result: dict[str, Any]) -> str:
    """Return ten-fold accuracy, with published results."""
    sets = [row["set"] for row in result["rows"]]
    ours = [f"**{row['accuracy']:.3f}** ± {row['std']:.3f}" for row in result["rows"]]
    others = [
        [f"*{method}, published*", *(f"{figures[name]:.3f}" for name in sets)]
        for method, figures in result["published"].items()
    ]
    return markdown(
        ["", *sets],
        [["`ours`, default `fit`", *ours], *others],
        f"Mean and standard deviation over ten stratified folds of one seed. Published: "
        f"{result['published_source']}. `{result['command']}`",
    )


def _fold_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['accuracy']:.3f} ± {row['std']:.3f} / {row['training rows']:.3f}"


def wider_grids_table(result: dict[str, Any]) -> str:
    """Return a line per baseline that stood at the end of its grid: whether it wants more."""
    ends: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for split in result["splits"]:
        ends.setdefault((split["set"], split["method"]), []).append(split)
    lines = []
    for row in result["rows"]:
        own = ends[row["set"], row["method"]]
        end, beyond = own[0]["end"], own[0]["values"]
        n_end = sum(split["chosen"] == end for split in own)
        words = own[0]["parameter"].replace("_", " ")
        lines.append(
            [
                f"{NAMES.get(row['method'], row['method'])} on {row['set']}",
                f"{words} {end:g}: {n_end} of {len(own)}",
                ", ".join(f"{value:g}" for value in beyond),
                f"on {row['taken']} of {row['splits']} splits",
                f"{row['accuracy']:.3f}",
                f"{row['accuracy with the wider grid']:.3f}",
            ]
        )
    head = ["", "the end, and how often it was taken", "tried beyond it", "validation prefers that"]
    return markdown(
        [*head, "accuracy", "with the wider grid"],
        lines,
        "Of the splits that were run; validation rows decide, and test figures follow. "
        f"`{result['command']}`",
    )


def difference_table(result: dict[str, Any], *, metric: str = "accuracy") -> str:
    """Return how far `ours` is from the best baseline of every set, and how sure that is.

    Of random splits 8:1:1.
    """
    tests = _differences(result, metric)
    places = {" | ".join(place): place for place in tests}
    p_values = holm({words: tests[place].p_value for words, place in places.items()})
    adjusted = {place: p_values[words] for words, place in places.items()}
    lines = []
    for name in dict.fromkeys(name for name, _ in tests):
        own = {method: test for (each, method), test in tests.items() if each == name}
        closest, test = min(own.items(), key=lambda pair: pair[1].mean)
        p_value = adjusted[name, closest]
        interval = f"{test.low:+.3f} to {test.high:+.3f}"
        sure = "< .001" if p_value < 0.001 else f"{p_value:.3f}"
        baseline = NAMES.get(closest, closest)
        lines.append([name, baseline, f"{test.mean:+.3f}", interval, sure, test.n_trials])
    n_sure = sum(p < MAX_P and tests[place].mean > 0 for place, p in adjusted.items())
    n_lost = sum(p < MAX_P and tests[place].mean < 0 for place, p in adjusted.items())
    head = ["", "closest baseline", "`ours` is ahead by", "95 % interval", "p", "splits"]
    return markdown(
        head,
        lines,
        f"Corrected resampled t-test, p adjusted by Holm over all {len(tests)} pairs of a set and "
        f"a baseline: `ours` is ahead at p < {MAX_P} in {n_sure}, behind in {n_lost}, with no "
        f"significant difference in {len(tests) - n_sure - n_lost}.",
    )


def ablation_order_table(result: dict[str, Any]) -> str:
    """Return on every set how far Pairwise is from Max-Matching with hard max, and how sure."""
    tests = {}
    for name, methods in _by_seed(result, "accuracy").items():
        seeds = sorted(set(methods["pairwise"]) & set(methods["paper"]))
        gaps = np.array([methods["pairwise"][seed] - methods["paper"][seed] for seed in seeds])
        tests[name] = corrected_t_test(gaps, TEST_TO_TRAIN)
    adjusted = holm({name: test.p_value for name, test in tests.items()})
    lines = []
    for name, test in tests.items():
        interval = f"{test.low:+.3f} to {test.high:+.3f}"
        lines.append([name, f"{test.mean:+.3f}", interval, f"{adjusted[name]:.3f}", test.n_trials])
    return markdown(
        ["", "Pairwise is ahead by", "95 % interval", "p", "splits"],
        lines,
        f"Corrected resampled t-test, p adjusted by Holm. `{result['reproduced_with']}`",
    )


def click_chance_table(result: dict[str, Any]) -> str:
    """Return the lead of `ours` on every log, with an interval over users."""
    lines = []
    for row in result["rows"]:
        baseline = f"{row['its figure']:.3f} ({row['baseline']})"
        interval = f"{row['low']:+.3f} to {row['high']:+.3f}"
        ours, lead = f"{row['ours']:.3f}", f"{row['lead']:+.3f}"
        lines.append([row["set"], ours, baseline, lead, interval, row["users"]])
    head = ["", f"{result['metric']} of `ours`", "best baseline", "ahead by", "95 % over users"]
    return markdown([*head, "users"], lines, f"`{result['command']}`")


def _by_seed(result: dict[str, Any], metric: str) -> dict[str, dict[str, dict[int, float]]]:
    """Return figures by data set, method and seed, as chosen by the first criterion."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for line in result["trials"]:
        trial = read_trial_line("", line)
        if trial.criterion == result["criteria"][0] and metric in trial.metrics:
            methods = found.setdefault(trial.dataset, {})
            methods.setdefault(trial.method, {})[trial.seed] = trial.metrics[metric]
    return found


def _differences(result: dict[str, Any], metric: str) -> dict[tuple[str, str], PairedDifference]:
    """Return the test of `ours` against every baseline on every set, over the seeds of both."""
    found = _by_seed(result, metric)
    tests = {}
    for name, methods in found.items():
        ours = methods.get("ours", {})
        for method, figures in methods.items():
            seeds = sorted(set(ours) & set(figures))
            is_baseline = method not in OURS_IN_SOME_FORM and not method.endswith(UNSMOOTHED)
            if is_baseline and len(seeds) > 1:
                gaps = np.array([ours[seed] - figures[seed] for seed in seeds])
                tests[name, method] = corrected_t_test(gaps, TEST_TO_TRAIN)
    return tests
