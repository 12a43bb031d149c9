"""Decisions: the record of what `fit` tried, what it scored, what it took and why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from groupnoise.core.words import counted, describe_fact
from groupnoise.decisions.portfolio import Option, plain
from groupnoise.exceptions import ModelFileError

if TYPE_CHECKING:
    from rich.console import Group

MIN_NAMED_WEIGHT = 0.01
"""Members of smaller weight are not named."""
MAX_NAMED = 5
"""Settings named in a sentence; a table has the others."""
MIN_ROWS = 4
"""Minimum settings shown, for comparison with the one taken."""


@dataclass(frozen=True)
class Trial:
    """Held-out scores of one option on one rung.

    `option`: the name of the option.
    `rung`: 0 for the first.
    `resource`: what the rung gave: epochs, a share of the rows, folds.
    `score`: mean held-out score, larger is better; None where the trial failed.
    `std_error`: its standard error.
    `seconds`: wall-clock time.
    `failed`: why there is no score.
    `scores`: the scores of each fold or group; not kept in records of decisions.
    """

    option: str
    rung: int
    resource: Any
    score: float | None
    std_error: float | None
    seconds: float
    failed: str | None = None
    scores: tuple[float, ...] = field(default=(), repr=False, compare=False)

    def as_record(self, *, with_scores: bool = False) -> dict[str, Any]:
        """Return the trial as JSON can hold it."""
        record = asdict(self)
        if not with_scores:
            del record["scores"]
        return record


@dataclass(frozen=True)
class Decisions:
    """What `fit` decided, on what grounds.

    Parameters
    ----------
    facts : mapping of str to plain values
        What is known of the data before any training: rows, classes, sizes.
    options : tuple of Option
        The portfolio that was tried.
    trials : tuple of Trial
        In the order they were made.
    taken : tuple of (str, float)
        The options that answer together, and their weights, which sum to one.
    criterion : str, default="held-out score"
        What the scores are, in words.
    reasons : tuple of str, default=()
        Sentences on what was taken.
    warnings : tuple of str, default=()
        Sentences on what to look at; `fit` has shown each as a warning too.
    baselines : mapping of str to float, default={}
        The criterion of what is simple: chance, the majority, popularity.
    held_out : float, optional
        The criterion of what was taken, where that is more than one option of the trials.
    seconds : float, default=0.0
        Time spent deciding.
    budget : float, optional
        Seconds that were allowed; None is no limit.
    """

    facts: Mapping[str, Any]
    options: tuple[Option, ...]
    trials: tuple[Trial, ...]
    taken: tuple[tuple[str, float], ...]
    criterion: str = "held-out score"
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    baselines: Mapping[str, float] = field(default_factory=dict)
    held_out: float | None = None
    seconds: float = 0.0
    budget: float | None = None

    def option(self, name: str) -> Option:
        """Return an option by its name.

        Parameters
        ----------
        name : str
            As in `taken` and in the trials.

        Returns
        -------
        Option
            Its parameters and its reason.
        """
        return next(option for option in self.options if option.name == name)

    @property
    def members(self) -> list[tuple[float, dict[str, Any]]]:
        """Weight and parameters of each option taken, the heaviest first."""
        heaviest_first = sorted(self.taken, key=lambda pair: -pair[1])
        return [(weight, dict(self.option(name).parameters)) for name, weight in heaviest_first]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per option: those taken first, then by rung and score.

        Returns
        -------
        list of dict
            "option", "weight", "rung", "score", "std_error", "seconds" (of all its trials),
            "note" and "parameters".
        """
        weights = dict(self.taken)
        rows = []
        heaviest = max(self.taken, key=lambda pair: pair[1])[0]
        whole = [trial.resource for trial in self.trials if trial.option == heaviest][-1:]
        for option in self.options:
            trials = [trial for trial in self.trials if trial.option == option.name]
            last = trials[-1] if trials else None
            note = "not tried" if last is None else last.failed or ""
            if last is not None and not note and weights.get(option.name, 0.0) == 0.0:
                note = "" if [last.resource] == whole else "first round only"
            if option.measure and last is not None and not last.failed:
                note = f"scored by {option.measure}" + f"; {note}" * bool(note)
            rows.append(
                {
                    "option": option.name,
                    "weight": weights.get(option.name, 0.0),
                    "rung": None if last is None else last.rung,
                    "score": None if last is None else last.score,
                    "std_error": None if last is None else last.std_error,
                    "seconds": sum(trial.seconds for trial in trials),
                    "note": note,
                    "parameters": dict(option.parameters),
                }
            )
        return sorted(
            rows,
            key=lambda row: (
                -row["weight"],
                -1 if row["rung"] is None else -1 - row["rung"],
                math.inf if row["score"] is None else -row["score"],
            ),
        )

    def summary(self) -> str:
        """Return what was decided in a few plain sentences.

        Returns
        -------
        str
            One sentence per line.
        """
        n_tried = len({trial.option for trial in self.trials})
        lines = []
        if self.facts:
            said = (describe_fact(name, value) for name, value in self.facts.items())
            lines.append(f"Data: {', '.join(filter(None, said))}.")
        if n_tried:
            lines.append(
                f"Tried {n_tried} of {counted(len(self.options), 'settings')} in "
                f"{self.seconds:.3g} s, scored by {self.criterion}."
            )
        by_weight = sorted(self.taken, key=lambda pair: -pair[1])
        named = [pair for pair in by_weight[:MAX_NAMED] if pair[1] >= MIN_NAMED_WEIGHT]
        taken = [f"{name} ({weight:.0%})" if len(by_weight) > 1 else name for name, weight in named]
        left = [weight for _, weight in by_weight[len(named) :]]
        rest = f"; and {counted(len(left), 'others')} ({sum(left):.0%})" if left else ""
        lines.append(f"Chosen: {'; '.join(taken)}{rest}.")
        lines += self.reasons
        if self.baselines:
            ours = self.reached
            scored = "" if ours is None else f"Held-out score {self.whose_score}: {ours:.3f}; b"
            lines.append(f"{scored or 'B'}aseline: {self._simple_figures()}.")
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def headline(self) -> str:
        """Return in a line what answers, and what it reaches beside what is simple.

        Returns
        -------
        str
            One sentence, without a full stop.
        """
        heaviest = max(self.taken, key=lambda pair: pair[1])[0]
        n_others = len(self.taken) - 1
        words = f"chosen: {heaviest}" + f" and {counted(n_others, 'others')}" * (n_others > 0)
        ours = self.reached
        if ours is not None:
            words += f"; held-out score: {ours:.3f}"
            words += f" ({self._simple_figures()})" if self.baselines else ""
            words += f", {self.criterion}" if self.trials else ""
        return words

    @property
    def reached(self) -> float | None:
        """The criterion of what was taken; None where nothing was tried."""
        if self.held_out is not None:
            return self.held_out
        others = {option.name for option in self.options if option.measure}
        scores = [
            row["score"]
            for row in self.table()
            if row["weight"] > 0 and row["score"] is not None and row["option"] not in others
        ]
        return max(scores, default=None)

    @property
    def whose_score(self) -> str:
        """What :attr:`reached` is the score of, as a sentence says it."""
        if len(self.taken) == 1:
            return "of this setting"
        return "of the best of them" if self.held_out is None else "of their average"

    def _simple_figures(self) -> str:
        return ", ".join(f"{name} {value:.3f}" for name, value in self.baselines.items())

    def snippet(self, class_name: str, **explicit: Any) -> str:
        """Return Python code that repeats the result without the search.

        Parameters
        ----------
        class_name : str
            The estimator, a public name of `groupnoise`.
        **explicit
            Further parameters that were given, such as `random_state`.

        Returns
        -------
        str
            Lines of code; several options taken become the parameter `ensemble`.
        """
        members = self.members
        # What bags of one label each share is found again only where nothing is said of background.
        may_share = members[0][1].get("background") is False and "negative label" not in self.facts
        alone = len(members) == 1 and not may_share
        parameters = dict(members[0][1]) if alone else {"ensemble": members}
        arguments = {**parameters, **{k: v for k, v in explicit.items() if k not in parameters}}
        lines = [f"from groupnoise import {class_name}", "", f"model = {class_name}("]
        for name, value in arguments.items():
            if name == "ensemble":
                inside = [f"        ({weight!r}, {each!r})," for weight, each in value]
                lines += ["    ensemble=[", *inside, "    ],"]
            else:
                lines.append(f"    {name}={value!r},")
        return "\n".join([*lines, ")"])

    def as_record(self) -> dict[str, Any]:
        """Return the decisions as JSON can hold them.

        Returns
        -------
        dict
            Field to value; numbers that JSON lacks are None.
        """
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        record["options"] = [asdict(option) for option in self.options]
        record["trials"] = [trial.as_record() for trial in self.trials]
        return _finite(plain(record))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Decisions:
        """Return the decisions that :meth:`as_record` described.

        Parameters
        ----------
        record : mapping
            As read from JSON.

        Returns
        -------
        Decisions
            Equal to those recorded.
        """
        try:
            values = dict(plain(record))
            values["options"] = tuple(Option(**option) for option in values["options"])
            values["trials"] = tuple(Trial(**trial) for trial in values["trials"])
            values["taken"] = tuple((str(name), float(each)) for name, each in values["taken"])
            decisions = cls(**values)
            if not {name for name, _ in decisions.taken} <= {
                each.name for each in decisions.options
            }:
                raise ValueError("an option was taken that is not listed")
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"the record of decisions cannot be read: {error}.") from None
        return decisions

    def to_json(self) -> str:
        """Return the decisions as JSON text.

        Returns
        -------
        str
            What :meth:`from_json` reads.
        """
        return json.dumps(self.as_record(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Decisions:
        """Return the decisions from JSON text; nothing in it is executed.

        Parameters
        ----------
        text : str
            What :meth:`to_json` returned.

        Returns
        -------
        Decisions
            Equal to those written.
        """
        try:
            record = json.loads(text)
        except ValueError as error:
            raise ModelFileError(f"the record of decisions is not JSON: {error}.") from None
        return cls.from_record(record)


def _finite(value: Any) -> Any:
    """Return plain values with None for what JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_finite(each) for each in value)
    return value


def _not_shown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers of settings that are not shown, by status."""
    n_taken = sum(row["weight"] > 0 for row in rows)
    n_untried = sum(row["weight"] == 0 and row["rung"] is None for row in rows)
    counts = {
        "chosen": n_taken,
        "tried and not chosen": len(rows) - n_taken - n_untried,
        "not tried": n_untried,
    }
    return "not shown: " + ", ".join(f"{n} {what}" for what, n in counts.items() if n)


def render_decisions(decisions: Decisions, *, max_rows: int = 8) -> Group:
    """Return what a console of rich prints: the summary, then what was tried.

    Of what was tried those that answer are shown, with the best of the others if these are few.

    `max_rows`: options shown at most; 0 prints the summary alone.
    """
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    rows = decisions.table()
    parts: list[Text | Table] = [Text(decisions.summary())]
    if max_rows and decisions.trials:
        table = Table(title=f"settings, scored by {decisions.criterion}", title_justify="left")
        for column in ("setting", "weight", "score", "note"):
            table.add_column(column, justify="left" if column in ("setting", "note") else "right")
        n_taken = sum(row["weight"] >= MIN_NAMED_WEIGHT for row in rows)
        shown = rows[: min(max_rows, max(n_taken, MIN_ROWS))]
        for row in shown:
            score = "" if row["score"] is None else f"{row['score']:.4f} ± {row['std_error']:.4f}"
            weight = f"{row['weight']:.0%}" if row["weight"] >= MIN_NAMED_WEIGHT else ""
            if 0.0 < row["weight"] < MIN_NAMED_WEIGHT:
                weight = f"< {MIN_NAMED_WEIGHT:.0%}"
            table.add_row(*(escape(cell) for cell in (row["option"], weight, score, row["note"])))
        if len(rows) > len(shown):
            table.caption = _not_shown(rows[len(shown) :])
        parts.append(table)
    return Group(*parts)
