"""Tables of the pages on noisy labels and on bags with candidate labels."""

from __future__ import annotations

from typing import Any


def accuracy_table(result: dict[str, Any]) -> str:
    """One line per noise: the accuracy of each method, the best in bold."""
    return _noise_table(result, "accuracy")


def auroc_table(result: dict[str, Any]) -> str:
    """One line per noise: the area under the ROC curve of each way to find wrong labels."""
    return _noise_table(result, "auroc")


def _noise_table(result: dict[str, Any], measure: str) -> str:
    methods = list(result["figures"][0][measure])
    lines = ["| noise | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
    for figure in result["figures"]:
        values = figure[measure]
        best = max(value["mean"] for value in values.values())
        cells = [_cell(values[method], values[method]["mean"] == best) for method in methods]
        lines.append(f"| {figure['noise']} {figure['rate']:.0%} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Seeds {_listed(result['seeds'])}; `{result['command']}`."])


def bag_table(result: dict[str, Any]) -> str:
    """One line per method: bag accuracy by the number of false labels, published ones below."""
    figures = result["figures"]
    counts = " | ".join(f"{figure['false_labels']} false" for figure in figures)
    lines = [f"| | {counts} |", "|---|" + "---|" * len(figures)]
    measures = [key for key, value in figures[0].items() if _is_measured(value)]
    for measure in measures:
        cells = [_cell(figure[measure], False) for figure in figures]
        lines.append(f"| **MaxMatchingMIPLClassifier**, {measure} | " + " | ".join(cells) + " |")
    for method in figures[0].get("published", {}):
        cells = [f"{figure['published'][method]:.1f}" for figure in figures]
        lines.append(f"| {method}, bag accuracy, published | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Runs {_listed(result['runs'])}; `{result['command']}`."])


def _is_measured(value: Any) -> bool:
    return isinstance(value, dict) and "mean" in value


def _cell(value: dict[str, Any], is_best: bool) -> str:
    shown = f"{value['mean']:.1f} ± {value['deviation']:.1f}"
    return f"**{shown}**" if is_best else shown


def _listed(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}"
