"""The kinds of issues an audit lists, setting by setting: data, not code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class IssueKind:
    """One ranked list of an audit.

    Attributes
    ----------
    name : str
        What programs call it.
    title : str
        What people call it.
    meaning : str
        One sentence for the report.
    table : {"groups", "objects", "never_chosen"}
        The table whose rows are listed.
    score : str
        The column they are ranked by, largest first.
    threshold : float
        Rows that score above it are listed.
    """

    name: str
    title: str
    meaning: str
    table: Literal["groups", "objects", "never_chosen"]
    score: str
    threshold: float


ISSUE_KINDS: dict[str, tuple[IssueKind, ...]] = {
    "mil": (
        IssueKind(
            "wrong_target",
            "Labels that look wrong",
            "A label that the bag does not carry is matched, and the one that it carries is not.",
            "groups",
            "suspicion",
            0.5,
        ),
        IssueKind(
            "no_credible_object",
            "Bags without a credible instance",
            "No instance has more than an even chance of being of the bag's label.",
            "groups",
            "doubt",
            0.5,
        ),
        IssueKind(
            "never_chosen",
            "Instances never chosen",
            "For no label of its bag was this instance the one that matched.",
            "never_chosen",
            "noise",
            0.0,
        ),
    ),
    "pll": (
        IssueKind(
            "wrong_target",
            "Rows whose true label seems to be missing",
            "A label outside the candidates is likelier than not.",
            "groups",
            "suspicion",
            0.5,
        ),
        IssueKind(
            "no_credible_object",
            "Rows without a credible candidate",
            "The candidates together have less than an even chance.",
            "groups",
            "doubt",
            0.5,
        ),
        IssueKind(
            "droppable_candidate",
            "Candidate labels that can be dropped",
            "The label has less than one chance in twenty.",
            "objects",
            "noise",
            0.95,
        ),
        IssueKind(
            "never_chosen",
            "Labels never chosen",
            "A candidate of some rows, but the best candidate of none.",
            "never_chosen",
            "noise",
            0.0,
        ),
    ),
    "rs": (
        IssueKind(
            "wrong_target",
            "Next clicks that look stray",
            "Neither the clicks before nor those after make this next click likelier than its "
            "popularity.",
            "groups",
            "suspicion",
            0.5,
        ),
        IssueKind(
            "no_credible_object",
            "Next clicks that nothing led to",
            "The clicks before it do not make it likelier than its popularity; a new interest "
            "may begin here.",
            "groups",
            "doubt",
            0.5,
        ),
        IssueKind(
            "stray_click",
            "Stray clicks",
            "The clicks around this one do not make it likelier than its popularity.",
            "objects",
            "noise",
            0.5,
        ),
        IssueKind(
            "never_chosen",
            "Items never chosen",
            "Clicked, but in no window the click that led to the next.",
            "never_chosen",
            "noise",
            0.0,
        ),
    ),
}
