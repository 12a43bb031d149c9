"""The report of a reproduction as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten

from groupnoise.experiments._facts import RunFacts
from groupnoise.experiments._recipes import Recipe
from groupnoise.experiments.report._sections import Section
from groupnoise.experiments.report._tables import ResultTable

TITLE = 70
"""The most letters of a title in a list of examples."""
CRITERION_WORDS = {
    "oracle": "true labels of the validation part",
    "covering_rate": "covering rate, without labels",
    "approximated_accuracy": "approximated accuracy, without labels",
    "validation": "the validation part",
}
"""What settings are chosen by, in words."""


def reproduction_text(
    recipe: Recipe,
    sections: Sequence[Section],
    ranks: Mapping[str, Mapping[str, float]],
    missing: Mapping[str, str],
    facts: RunFacts,
) -> str:
    """Return the report.

    Parameters
    ----------
    recipe : Recipe
        What was compared.
    sections : sequence of Section
        One per data set.
    ranks : mapping
        For each criterion the mean rank of every method.
    missing : mapping
        Why a data set was left out.
    facts : RunFacts
        How it came about.
    """
    seeds = ", ".join(map(str, facts.seeds))
    lines = [f"# {recipe.name}", "", f"`{facts.command}`, {facts.day}, {facts.machine}.", ""]
    lines += [f"Seeds {seeds}; settings chosen by {CRITERION_WORDS[recipe.criteria[0]]}.", ""]
    lines += [f"- {note}" for note in recipe.notes]
    for section in sections:
        lines += ["", f"## {section.name}", ""]
        lines += _table(section.table, section.published)
        lines += ["", *(f"- {sentence}" for sentence in section.sentences)]
        for criterion, table in section.other_tables.items():
            lines += [
                "",
                f"Settings chosen by {CRITERION_WORDS[criterion]}:",
                "",
                *_table(table, {}),
            ]
        for method, examples in section.examples.items():
            lines += ["", f"### {method}", ""]
            for example in examples:
                answers = "; ".join(shorten(each["title"], TITLE) for each in example["answers"])
                lines.append(f"- **{example['clicked']}**: {answers}")
        lines += [
            "",
            "| method | seconds a trial | fits a trial | values chosen (trials) |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {f.method} | {f.seconds:.1f} | {f.n_fits} | {f.chosen} |" for f in section.facts
        ]
    for criterion, means in ranks.items():
        words = ", ".join(f"{method} {rank:.2f}" for method, rank in means.items())
        chosen = CRITERION_WORDS[criterion]
        lines += ["", f"Mean rank over the sets (settings chosen by {chosen}): {words}."]
    if missing:
        lines += ["", "## Left out", ""]
        lines += [f"- {name}: {reason}" for name, reason in missing.items()]
    return "\n".join(lines) + "\n"


def _table(table: ResultTable, published: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return mean and deviation of every method, the printed figure behind each."""
    lines = [
        "| method | " + " | ".join(table.metrics) + " |",
        "|---|" + "---|" * len(table.metrics),
    ]
    for row in table.rows:
        cells = []
        for metric, figure in zip(table.metrics, row.figures, strict=True):
            cell = "" if figure is None else f"{figure.mean:.3f} ± {figure.deviation:.3f}"
            printed = published.get(row.method, {}).get(metric)
            cells.append(cell if printed is None else f"{cell} (paper: {printed:.3f})")
        name = f"**{row.method}**" if row.method == "ours" else row.method
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines
