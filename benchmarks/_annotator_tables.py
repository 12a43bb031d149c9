"""Tables of `resolve`: the grid of simulated annotators, and rows of real candidate sets."""

from __future__ import annotations

from typing import Any

METHODS = {
    "majority": "majority",
    "dawid_skene": "Dawid-Skene",
    "cleanlab": "cleanlab",
    "ours": "`resolve`",
}
AIMS = {"lost": 0.93, "msrcv2": 0.76, "birdsong": 0.885}
"""What was aimed at: above the published figures of methods that see the rows they label."""
PUBLISHED = {"lost": "VI-PLL .925", "msrcv2": "PiCO .757", "birdsong": "PiCO .881"}


def annotator_table(figure: str, result: dict[str, Any]) -> str:
    """One line per case; the best method is bold, and where it is not ours can be seen."""
    lines = [
        "| votes a row | annotators | skills | features | " + " | ".join(METHODS.values()) + " |",
        "|---" * (4 + len(METHODS)) + "|",
    ]
    cases = sorted(
        result["cases"],
        key=lambda case: (case["features"], case["votes"], case["annotators"], case["skills"]),
    )
    for case in cases:
        values = case[figure]
        best = max(values.values())
        cells = [
            f"**{values[name]:.3f}**" if values[name] == best else f"{values[name]:.3f}"
            for name in METHODS
        ]
        low, high = result["skills"][case["skills"]]
        lines.append(
            f"| {case['votes']} | {case['annotators']} | {low:.2f} to {high:.2f} | "
            f"{case['features']} | " + " | ".join(cells) + " |"
        )
    behind = sum(
        case[figure]["ours"] < max(case[figure][name] for name in METHODS) for case in cases
    )
    lines += [
        "",
        f"`resolve` is behind the best of the others in {behind} of {len(cases)} cases. "
        f"{result['rows']} rows, mean over seeds {result['seeds']}; `{result['command']}`.",
    ]
    return "\n".join(lines)


def real_table(result: dict[str, Any]) -> str:
    """One line per run on a real set."""
    lines = [
        "| set | rows | rounds | answer | seed | accuracy | aim | published | mean probability "
        "| calibration error |",
        "|---" * 10 + "|",
    ]
    names = list(AIMS)
    for run in sorted(
        result["runs"],
        key=lambda run: (run["answer"], names.index(run["set"]), run["rounds"], run["seed"]),
    ):
        name, error = run["set"], run.get("calibration error")
        lines.append(
            f"| {name} | {run['rows']} | {run['rounds']} | {run['answer']} | {run['seed']} | "
            f"{run['accuracy']:.3f} | {AIMS[name]:.3f} | {PUBLISHED[name]} | "
            f"{run['mean probability']:.3f} | {'' if error is None else f'{error:.3f}'} |"
        )
    return "\n".join(lines)
