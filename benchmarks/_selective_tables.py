"""Tables of prediction sets that know no true label, and of questions to people."""

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


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
