"""Tables of labels: wrong ones, votes of annotators, prediction sets, and questions to people."""

from __future__ import annotations

from typing import Any

import numpy as np
from _record import best_in_bold, markdown
from scipy.stats import t as student

ANNOTATOR_METHODS = {
    "majority": "majority",
    "dawid_skene": "Dawid-Skene",
    "cleanlab": "cleanlab",
    "ours": "`resolve`",
}
AIMS = {"lost": 0.93, "msrcv2": 0.76, "birdsong": 0.885}
"""What was aimed at: above the published figures of methods that see the rows they label."""
PUBLISHED = {"lost": "VI-PLL .925", "msrcv2": "PiCO .757", "birdsong": "PiCO .881"}
STRATEGIES = ("change", "margin", "random")


def accuracy_table(result: dict[str, Any], measure: str = "accuracy") -> str:
    """One line per noise: the accuracy of each method, the best in bold."""
    methods = list(result["figures"][0][measure])
    rows = []
    for figure in result["figures"]:
        values = figure[measure]
        best = max(value["mean"] for value in values.values())
        cells = [_cell(values[method], values[method]["mean"] == best) for method in methods]
        rows.append([f"{figure['noise']} {figure['rate']:.0%}", *cells])
    note = f"Seeds {_listed(result['seeds'])}; `{result['command']}`."
    return markdown(["noise", *methods], rows, note)


def auroc_table(result: dict[str, Any]) -> str:
    """One line per noise: the area under the ROC curve of each way to find wrong labels."""
    return accuracy_table(result, "auroc")


def bag_table(result: dict[str, Any]) -> str:
    """One line per method: bag accuracy by the number of false labels, published ones below."""
    figures = result["figures"]
    measured = [
        key for key, value in figures[0].items() if isinstance(value, dict) and "mean" in value
    ]
    rows = [
        [f"**MaxMatchingMIPLClassifier**, {name}", *(_cell(figure[name]) for figure in figures)]
        for name in measured
    ]
    for method in figures[0].get("published", {}):
        cells = [f"{figure['published'][method]:.1f}" for figure in figures]
        rows.append([f"{method}, bag accuracy, published", *cells])
    head = ["", *(f"{figure['false_labels']} false" for figure in figures)]
    return markdown(head, rows, f"Runs {_listed(result['runs'])}; `{result['command']}`.")


def _cell(value: dict[str, Any], is_best: bool = False) -> str:
    shown = f"{value['mean']:.1f} ± {value['deviation']:.1f}"
    return f"**{shown}**" if is_best else shown


def _listed(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}"


def annotator_table(figure: str, result: dict[str, Any]) -> str:
    """One line per case; the best method is bold, and where it is not ours can be seen."""
    cases = sorted(
        result["cases"],
        key=lambda case: (case["features"], case["votes"], case["annotators"], case["skills"]),
    )
    rows = []
    for case in cases:
        low, high = result["skills"][case["skills"]]
        about = [case["votes"], case["annotators"], f"{low:.2f} to {high:.2f}", case["features"]]
        rows.append([*about, *best_in_bold([case[figure][name] for name in ANNOTATOR_METHODS])])
    others = [name for name in ANNOTATOR_METHODS if name != "ours"]
    n_behind = sum(case[figure]["ours"] < max(case[figure][o] for o in others) for case in cases)
    return markdown(
        ["votes a row", "annotators", "skills", "features", *ANNOTATOR_METHODS.values()],
        rows,
        f"`resolve` is behind the best of the others in {n_behind} of {len(cases)} cases. "
        f"{result['rows']} rows, mean over seeds {result['seeds']}; `{result['command']}`.",
    )


def real_table(result: dict[str, Any]) -> str:
    """One line per run of `resolve` on rows of a real candidate set."""
    names = list(AIMS)
    rows = []
    for run in sorted(
        result["runs"],
        key=lambda run: (run["answer"], names.index(run["set"]), run["rounds"], run["seed"]),
    ):
        name, error = run["set"], run.get("calibration error")
        cells = [name, *(run[each] for each in ("rows", "rounds", "answer", "seed"))]
        cells += [f"{run['accuracy']:.3f}", f"{AIMS[name]:.3f}", PUBLISHED[name]]
        rows.append(
            [*cells, f"{run['mean probability']:.3f}", "" if error is None else f"{error:.3f}"]
        )
    head = ["set", "rows", "rounds", "answer", "seed", "accuracy", "target", "published"]
    return markdown([*head, "mean probability", "calibration error"], rows)


def question_table(result: dict[str, Any]) -> str:
    """One line per set: accuracy after all answers, and how far "change" leads over the curve."""
    rows = []
    for name, found in result["sets"].items():
        for unit in (unit for unit in found["change"] if "mean over" not in unit):
            last = [100 * found[strategy][unit][-1] for strategy in STRATEGIES]
            none = f"{100 * found['change'][unit][0]:.1f}"
            ahead = [_ahead(found, unit, other) for other in STRATEGIES[1:]]
            about = [name, found["seeds"], found["answers"][-1], unit, none]
            rows.append([*about, *best_in_bold(last, ".1f"), *ahead])
    head = ["set", "seeds", "answers", "of", "none", *STRATEGIES]
    return markdown([*head, "ahead of margin", "ahead of random"], rows, f"`{result['command']}`.")


def _ahead(found: dict[str, Any], unit: str, other: str) -> str:
    """Say by how many points "change" leads on the mean over all rounds, with a 95 % interval."""
    column = f"{unit}, mean over answers"
    gains = 100 * (np.array(found["change"][column]) - np.array(found[other][column]))
    error = gains.std(ddof=1) / np.sqrt(len(gains)) * student.ppf(0.975, len(gains) - 1)
    return f"{gains.mean():+.2f} ± {error:.2f}"


def set_table(result: dict[str, Any]) -> str:
    """One line per set: how often sets hold the truth without a true label, and with some."""
    rows = []
    for name, found in result["sets"].items():
        plain, by_class = found["search of fit"], found["search of fit, by class"]
        sure, apart = found["search of fit, guaranteed"], found["held out, candidates"]
        some, worst = found["held out, truth of some"], by_class.get("worst class")
        rows.append(
            [
                name,
                f"{sum(found['foretold']) / len(found['foretold']):.1f}",
                *(_percent(plain["coverage"]), f"{plain['mean size']:.1f}"),
                *(_percent(sure["coverage"]), f"{sure['mean size']:.1f}"),
                _percent(by_class["coverage"]),
                "" if worst is None else f"{_percent(worst)} of {by_class['classes']}",
                _percent(apart["coverage"]),
                *(_percent(some["coverage"]), f"{some['mean size']:.1f}"),
            ]
        )
    rows.sort(key=lambda row: result["sets"][row[0]]["search of fit"]["coverage"])
    head = ["set", "predicted", "no truth", "size", "guaranteed", "size", "by class", "worst class"]
    head += ["apart, no truth", "apart, some truth", "size"]
    return markdown(head, rows, _with_seeds(result, "seeds"))


def bag_set_table(result: dict[str, Any]) -> str:
    """One line per set of bags: how often sets of bags and of instances hold the truth."""
    rows = []
    for name, found in result["bags"].items():
        row = [name]
        for kind in ("bags", "instances"):
            if kind not in found:
                row += ["", "", ""]
                continue
            plain, by_class = found[kind], found[f"{kind}, by class"]
            row += [_percent(plain["coverage"]), f"{plain['mean size']:.1f}"]
            row.append(_percent(by_class["coverage"]))
        counts = [
            found[each] for each in found if each.endswith("by class") and "classes" in found[each]
        ]
        n_low = sum(each["classes too low beyond chance"] for each in counts)
        rows.append([*row, f"{n_low} of {sum(each['classes'] for each in counts)}"])
    head = ["set", "bags", "size", "by class", "instances", "size", "by class", "classes too low"]
    return markdown(head, rows, _with_seeds(result, "bag seeds"))


def _with_seeds(result: dict[str, Any], name: str) -> str:
    return f"Seeds {', '.join(map(str, result[name]))}; `{result['command']}`."


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
