"""Tables of prediction sets that know no true label, and of questions."""

from __future__ import annotations

from typing import Any

STRATEGIES = ("change", "margin", "random")


def question_table(result: dict[str, Any]) -> str:
    """One line per set: accuracy after all answers, and how often "change" leads over the curve."""
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
    """Say by how many points "change" leads on the mean over all rounds, and on how many seeds."""
    column = f"{unit}, mean over answers"
    gains = [
        100 * (ours - theirs)
        for ours, theirs in zip(found["change"][column], found[other][column], strict=True)
    ]
    won = sum(gain > 0 for gain in gains)
    return f"{sum(gains) / len(gains):+.1f} ({won} of {len(gains)})"
