"""The HTML page of an audit: summary, and the worst cases of each list."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.audit.evidence import Attachments
from groupnoise.audit.issues import GroupIssues, IssueKind
from groupnoise.core.arrays import FloatArray
from groupnoise.core.words import counted
from groupnoise.io.files import write_text
from groupnoise.pages import render_page

N_CASES = 20
MAX_OBJECTS = 14
CLICKS_BEFORE, CLICKS_AFTER = 5, 3
N_BINS = 20
MAX_ROWS = 200
"""Rows of a list on the page at most; the tables beside it hold all."""
SHOWN_COLUMNS = {
    "groups": ("source", "position", "target", "object", "probability", "margin", "suggested"),
    "objects": ("source", "position", "object", "responsibility", "times_chosen"),
    "never_chosen": ("source", "object", "occurrences"),
    "users": ("source", "clicks", "object", "repeats", "in_a_minute", "why"),
}
CHANCE_WARNING = (
    "the model behind this audit is no better than chance, so its lists may flag correct entries"
)
"""Introduces a warning about models that are no better than chance."""
SETTING_WORDS = {
    "mil": ("bags", "instances"),
    "pll": ("rows", "candidate labels"),
    "rs": ("windows", "clicks"),
}


@dataclass(frozen=True)
class CaseObject:
    """One object of a case."""

    name: str
    responsibility: float
    noise: float
    pictures: list[str] = field(default_factory=list)
    is_chosen: bool = False
    is_flagged: bool = False
    is_target: bool = False


@dataclass(frozen=True)
class Case:
    """One entry of a ranked list as shown on the page."""

    kind: str
    score: float
    source: int | str
    label: str
    verdict: str
    objects: list[CaseObject]
    pictures: list[str] = field(default_factory=list)
    text: str = ""
    n_hidden: int = 0


def judged_summary(issues: GroupIssues) -> str:
    """Return a sentence on how many bags, rows or windows were judged."""
    groups, objects = SETTING_WORDS[issues.setting]
    n_groups, n_objects = len(issues), len(issues.objects["noise"])
    pairs = unlabelled = ""
    if issues.setting == "mil":
        n_bare = int((issues.groups["target"] < 0).sum())
        n_pairs, n_groups = n_groups - n_bare, len(np.unique(issues.groups["source"]))
        if n_pairs > n_groups - n_bare:
            pairs = f" ({n_pairs:,} pairs of bag and label)"
        if n_bare:
            bags = f"{counted(n_bare, 'bags', ',')} {'has' if n_bare == 1 else 'have'} no label"
            unlabelled = f" {bags}: there the question was whether one is missing."
    return (
        f"{counted(n_groups, groups, ',')}{pairs} and {counted(n_objects, objects, ',')} were "
        f"judged.{unlabelled}"
    )


def worst_cases(
    kind: IssueKind, issues: GroupIssues, dataset: Any, attachments: Attachments
) -> list[Case]:
    """Return the worst cases of a list; none of objects never chosen and of users."""
    if kind.table not in ("groups", "objects"):
        return []
    draw = {"mil": _bag_case, "pll": _candidate_case, "rs": _click_case}[issues.setting]
    table = issues.table(kind.table)
    rows = issues.ranked(kind.name, N_CASES)
    return [
        draw(kind, {name: each[row] for name, each in table.items()}, issues, dataset, attachments)
        for row in rows
    ]


def _bag_case(
    kind: IssueKind, found: dict[str, Any], issues: GroupIssues, dataset: Any, shown: Attachments
) -> Case:
    bag = int(found["source"])
    first, stop = dataset.bags.offsets[bag : bag + 2]
    chosen = int(found["object"])
    names = dataset.class_names
    label = ", ".join(names[each] for each in np.flatnonzero(dataset.labels[bag])) or "no label"
    positions = _nearby(np.arange(first, stop), chosen - first)
    verdict = f"labelled {names[found['target']]}" if found["target"] >= 0 else "without a label"
    if kind.name == "wrong_target" and found["suggested"] >= 0:
        verdict += f", looks like {names[found['suggested']]}"
    objects = [
        CaseObject(
            name=shown.text(position) or f"instance {position - first}",
            responsibility=float(issues.objects["responsibility"][position]),
            noise=float(issues.objects["noise"][position]),
            pictures=shown.pictures(position),
            is_chosen=position == chosen,
        )
        for position in positions
    ]
    n_hidden = int(stop - first) - len(positions)
    source, score = dataset.ids[bag].item(), float(found[kind.score])
    return Case(kind.name, score, source, label, verdict, objects, n_hidden=n_hidden)


def _candidate_case(
    kind: IssueKind, found: dict[str, Any], issues: GroupIssues, dataset: Any, shown: Attachments
) -> Case:
    row, names = int(found["source"]), dataset.class_names
    candidates = np.flatnonzero(dataset.candidates[row])
    first = int(np.searchsorted(issues.objects["source"], row))
    group = {name: each[row] for name, each in issues.groups.items()}
    is_object = kind.table == "objects"
    if is_object:
        verdict = f"{names[found['object']]} can be dropped"
    elif group["suggested"] >= 0:
        verdict = f"looks like {names[group['suggested']]}, which is no candidate"
    else:
        verdict = "no candidate is credible"
    objects = [
        CaseObject(
            name=names[label],
            responsibility=float(issues.objects["responsibility"][first + position]),
            noise=float(issues.objects["noise"][first + position]),
            is_chosen=label == group["object"],
            is_flagged=is_object and label == found["object"],
        )
        for position, label in enumerate(candidates)
    ]
    return Case(
        kind=kind.name,
        score=float(found[kind.score]),
        source=row,
        label=names[found["object"]],
        verdict=verdict,
        objects=objects[:MAX_OBJECTS],
        pictures=shown.pictures(row),
        text=shown.text(row),
        n_hidden=max(0, len(objects) - MAX_OBJECTS),
    )


def _click_case(
    kind: IssueKind, found: dict[str, Any], issues: GroupIssues, dataset: Any, shown: Attachments
) -> Case:
    history = int(found["source"])
    first, stop = dataset.histories.offsets[history : history + 2]
    is_object = kind.table == "objects"
    position = first + int(found["position"])
    chosen = -1 if is_object else _chosen_click(issues, history, position - first, first)
    item = int(dataset.histories.objects[position])
    categories = getattr(dataset, "categories", None)
    clicks = range(max(first, position - CLICKS_BEFORE), min(stop, position + CLICKS_AFTER + 1))
    clicked = dataset.histories.objects[clicks.start : clicks.stop].tolist()
    objects = [
        CaseObject(
            name=shown.text(each) or str(dataset.item_ids[each]),
            responsibility=float(issues.objects["responsibility"][click]),
            noise=float(issues.objects["noise"][click]),
            pictures=shown.pictures(each),
            is_chosen=click == chosen,
            is_flagged=click == position and is_object,
            is_target=click == position and not is_object,
        )
        for click, each in zip(clicks, clicked, strict=True)
    ]
    return Case(
        kind=kind.name,
        score=float(found[kind.score]),
        source=dataset.user_ids[history].item(),
        label=categories[item] if categories else str(dataset.item_ids[item]),
        verdict=f"position {position - first} of {counted(int(stop - first), 'clicks')}, from 0",
        objects=objects,
    )


def _chosen_click(issues: GroupIssues, history: int, position: int, first: int) -> int:
    """Return the click chosen for the target at a position of a history."""
    group = int(np.searchsorted(issues.groups["source"], history)) + position - 1
    return int(first + position - issues.groups["size"][group] + issues.groups["chosen"][group])


def _nearby(positions: Any, chosen: int) -> Any:
    """Return at most MAX_OBJECTS positions, the chosen one among them."""
    start = min(max(0, chosen - MAX_OBJECTS // 2), max(0, len(positions) - MAX_OBJECTS))
    return positions[start : start + MAX_OBJECTS].tolist()


@dataclass(frozen=True)
class Bars:
    """A histogram over [0, 1]."""

    title: str
    words: str
    counts: list[int]
    heights: list[float]


@dataclass(frozen=True)
class IssueList:
    """One ranked list: its length, first rows and worst cases."""

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
    """Return the self-contained page of an audit as text."""
    shown = attachments or Attachments.of_dataset(dataset)
    lists = [_issue_list(kind, issues, dataset, shown) for kind in issues.kinds]
    labels = sorted({case.label for each in lists for case in each.cases})
    return render_page(
        "audit.html",
        package="groupnoise.audit",
        name=dataset.name,
        nouns=SETTING_WORDS[issues.setting],
        judged=judged_summary(issues),
        doubts=[f"{CHANCE_WARNING}: {each}" for each in issues.warnings],
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
