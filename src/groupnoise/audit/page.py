"""The page of an audit: its words, and what its template draws."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.audit.attachments import Attachments
from groupnoise.audit.cases import Case, worst_cases
from groupnoise.audit.issues import GroupIssues, IssueKind
from groupnoise.core.arrays import FloatArray
from groupnoise.io.files import write_text
from groupnoise.pages.render import render_page

N_BINS = 20
MAX_ROWS = 200
"""Rows of a list that the page holds; the tables beside it hold all."""
SHOWN_COLUMNS = {
    "groups": ("source", "position", "target", "object", "probability", "margin", "suggested"),
    "objects": ("source", "position", "object", "responsibility", "times_chosen"),
    "never_chosen": ("source", "object", "occurrences"),
}
SETTING_WORDS = {
    "mil": ("bags", "instances"),
    "pll": ("rows", "candidate labels"),
    "rs": ("windows", "clicks"),
}


@dataclass(frozen=True)
class Bars:
    """A histogram over [0, 1] and what it counts."""

    title: str
    words: str
    counts: list[int]
    heights: list[float]


@dataclass(frozen=True)
class IssueList:
    """One ranked list: how long it is, its first rows and its worst cases."""

    kind: IssueKind
    n_listed: int
    header: list[str]
    rows: list[tuple[list[str], str, float]]
    cases: list[Case]


def audit_page(
    issues: GroupIssues,
    dataset: Any,
    *,
    attachments: Attachments | None = None,
    how: str = "",
    command: str = "",
) -> str:
    """Return the page of an audit as text; it needs nothing beside itself.

    Parameters
    ----------
    issues : GroupIssues
        What `find_group_issues` found.
    dataset : BagDataset, PartialLabelDataset or ClickDataset
        Where it was found.
    attachments : Attachments, optional
        Pictures and texts to show; by default those of the data set.
    how : str
        A sentence on which models judged.
    command : str
        What was typed, for those who want to repeat it.
    """
    shown = attachments or Attachments.of_dataset(dataset)
    lists = [_issue_list(kind, issues, dataset, shown) for kind in issues.kinds]
    labels = sorted({case.label for each in lists for case in each.cases})
    return render_page(
        "audit.html",
        package="groupnoise.audit",
        name=dataset.name,
        nouns=SETTING_WORDS[issues.setting],
        n_groups=len(issues),
        n_objects=len(issues.objects["noise"]),
        lists=lists,
        labels=labels,
        bars=_histograms(issues),
        is_ink=shown.files is None,
        how=how,
        command=command,
    )


def write_audit_page(
    path: Path | str,
    issues: GroupIssues,
    dataset: Any,
    *,
    attachments: Attachments | None = None,
    how: str = "",
    command: str = "",
) -> None:
    """Write `audit_page` to a file, whole or not at all.

    Parameters
    ----------
    path : path
        The file to write.
    issues : GroupIssues
        What the audit found.
    dataset : BagDataset, PartialLabelDataset or ClickDataset
        What was audited.
    attachments : Attachments, optional
        Pictures, texts or titles to show for objects.
    how : str, default=""
        One sentence on how the evidence was made.
    command : str, default=""
        The command that made the page, to be shown on it.
    """
    page = audit_page(issues, dataset, attachments=attachments, how=how, command=command)
    write_text(Path(path), page)


def _issue_list(
    kind: IssueKind, issues: GroupIssues, dataset: Any, shown: Attachments
) -> IssueList:
    table = issues.list_of(kind.name, MAX_ROWS)
    header = [name for name in SHOWN_COLUMNS[kind.table] if name in table]
    cells = zip(*(table[name].tolist() for name in [*header, kind.score]), strict=True)
    rows = [([_cell(each) for each in row], " ".join(map(_cell, row)), row[-1]) for row in cells]
    return IssueList(
        kind=kind,
        n_listed=len(issues.ranked(kind.name)),
        header=[*(name.replace("_", " ") for name in header), kind.score],
        rows=rows,
        cases=worst_cases(kind, issues, dataset, shown),
    )


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _histograms(issues: GroupIssues) -> list[Bars]:
    objects = SETTING_WORDS[issues.setting][1]
    return [
        _bars("probability", "of the object chosen", issues.groups["probability"]),
        _bars("margin", "to the runner-up", issues.groups["margin"]),
        _bars("doubt", "that any object is credible", issues.groups["doubt"]),
        _bars("noise", f"of all {objects}", issues.objects["noise"]),
    ]


def _bars(title: str, words: str, values: FloatArray) -> Bars:
    counts, _ = np.histogram(values, bins=N_BINS, range=(0.0, 1.0))
    highest = max(int(counts.max()), 1)
    return Bars(title, words, counts.tolist(), (100 * counts / highest).round(1).tolist())
