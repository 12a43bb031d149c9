"""Tables of prediction sets that know no true label, and of questions to people."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t as student

STRATEGIES = ("change", "margin", "random")


def question_table(result: dict[str, Any]) -> str:
    """One line per set: accuracy after all answers, and how far "change" leads over the curve."""
    lines = [
        "| set | seeds | answers | of | none | " + " | ".join(STRATEGIES) + " | ahead of margin "
        "| ahead of random |",
        "|---" * 10 + "|",
    ]
    for name, found in result["sets"].items():
        units = [unit for unit in found["change"] if "mean over" not in unit]
        for unit in units:
            last = {strategy: found[strategy][unit][-1] for strategy in STRATEGIES}
            best = max(last.values())
            cells = [
                f"**{100 * value:.1f}**" if value == best else f"{100 * value:.1f}"
                for value in last.values()
            ]
            ahead = [_ahead(found, unit, other) for other in STRATEGIES[1:]]
            lines.append(
                f"| {name} | {found['seeds']} | {found['answers'][-1]} | {unit} | "
                f"{100 * found['change'][unit][0]:.1f} | {' | '.join([*cells, *ahead])} |"
            )
    lines += ["", f"`{result['command']}`."]
    return "\n".join(lines)


def _ahead(found: dict[str, Any], unit: str, other: str) -> str:
    """Say by how many points "change" leads on the mean over all rounds, with a 95 % interval."""
    column = f"{unit}, mean over answers"
    gains = 100 * (np.array(found["change"][column]) - np.array(found[other][column]))
    error = gains.std(ddof=1) / np.sqrt(len(gains)) * student.ppf(0.975, len(gains) - 1)
    return f"{gains.mean():+.2f} ± {error:.2f}"


def set_table(result: dict[str, Any]) -> str:
    """One line per set: how often sets hold the truth without a true label, and with some."""
    lines = [
        "| set | foretold | no truth | size | guaranteed | size | by class | worst class | apart, "
        "no truth | apart, some truth | size |",
        "|---" * 11 + "|",
    ]
    order = sorted(
        result["sets"].items(), key=lambda each: float(each[1]["search of fit"]["coverage"])
    )
    for name, found in order:
        plain, by_class = found["search of fit"], found["search of fit, by class"]
        sure, apart = found["search of fit, guaranteed"], found["held out, candidates"]
        some = found["held out, truth of some"]
        worst = by_class.get("worst class")
        of = f" of {by_class['classes']}" if worst is not None else ""
        cells = [
            name,
            f"{sum(found['foretold']) / len(found['foretold']):.1f}",
            _percent(plain["coverage"]),
            f"{plain['mean size']:.1f}",
            _percent(sure["coverage"]),
            f"{sure['mean size']:.1f}",
            _percent(by_class["coverage"]),
            "" if worst is None else f"{_percent(worst)}{of}",
            _percent(apart["coverage"]),
            _percent(some["coverage"]),
            f"{some['mean size']:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    seeds = ", ".join(map(str, result["seeds"]))
    lines += ["", f"Seeds {seeds}; `{result['command']}`."]
    return "\n".join(lines)


def bag_set_table(result: dict[str, Any]) -> str:
    """One line per set of bags: how often sets of bags and of instances hold the truth."""
    lines = [
        "| set | bags | size | by class | instances | size | by class | classes too low |",
        "|---" * 8 + "|",
    ]
    for name, found in result["bags"].items():
        cells = [name]
        for kind in ("bags", "instances"):
            if kind not in found:
                cells += ["", "", ""]
                continue
            plain, by_class = found[kind], found[f"{kind}, by class"]
            cells += [
                _percent(plain["coverage"]),
                f"{plain['mean size']:.1f}",
                _percent(by_class["coverage"]),
            ]
        low = [found[each] for each in found if each.endswith("by class")]
        counts = [each for each in low if "classes" in each]
        n_low = sum(each["classes too low beyond chance"] for each in counts)
        n_classes = sum(each["classes"] for each in counts)
        lines.append("| " + " | ".join([*cells, f"{n_low} of {n_classes}"]) + " |")
    seeds = ", ".join(map(str, result["bag seeds"]))
    lines += ["", f"Seeds {seeds}; `{result['command']}`."]
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
