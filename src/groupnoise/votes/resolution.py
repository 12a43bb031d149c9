"""`resolve`: one label per row from votes or candidate labels, and a ranking of rows to review."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.arrays import FloatArray, IntArray, ProgressCallback
from groupnoise.core.checks import check_count
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.answer_files import rename_input_columns
from groupnoise.io.columns.exclusions import RowTargets
from groupnoise.io.columns.roles import is_truth_name
from groupnoise.io.tables.sources import Guesses, Report
from groupnoise.votes.classifiers import Fit, PredictionCache, default_fits
from groupnoise.votes.data import Votes, krippendorff_alpha
from groupnoise.votes.dawid_skene import Reliability
from groupnoise.votes.explanations import explain_labels, summary_lines, vote_warnings
from groupnoise.votes.features import row_features
from groupnoise.votes.files import (
    VotedRows,
    comment_columns,
    read_known_labels,
    read_votes,
    unused_vote_columns,
)
from groupnoise.votes.inference import Belief, infer_labels
from groupnoise.votes.misspellings import (
    correct_habits,
    correct_misspellings,
    corrected_shares,
    drop_misspellings,
    restore_spellings,
)


@dataclass(frozen=True, repr=False)
class Resolution:
    """One label per row, how sure it is, and which rows to look at first.

    Attributes
    ----------
    rows : polars.DataFrame
        The input.
    columns : dict of str to list
        The answers: label, probability, second choice, margin, agreement, why, look.
    votes : Votes
        What was said.
    probabilities : ndarray of shape (n_rows, n_classes)
        P(label | all evidence); `votes.class_names` are its columns. NaN in rows about which
        there is no evidence.
    belief : Belief
        The parts: annotators, classifier out of fold, temperature.
    reliability : Reliability, optional
        Each annotator's confusion with intervals, of what was said first, however surely; None
        for candidate labels.
    alpha : float
        Krippendorff's alpha; NaN where no row has two votes.
    shares : ndarray of shape (n_rows, n_classes)
        The part of a row's votes that is for each label, first choices and what was meant.
    notes : list of str
        Guesses that were made, and what a reader of the answers must know.
    """

    rows: Any
    columns: dict[str, list[Any]]
    votes: Votes
    probabilities: FloatArray
    belief: Belief
    reliability: Reliability | None
    alpha: float
    shares: FloatArray
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        head = f"{counted(len(self.probabilities), 'rows')} resolved; to_frame(sort=True) has them"
        lines = summary_lines(self.reliability, self.alpha, self.columns["probability"])
        return "\n".join([head, *lines])

    @property
    def candidate_weights(self) -> FloatArray:
        """P(label) at every label that was named, 0 elsewhere, for `fit(candidate_weights=)`."""
        named = self.votes.candidates()
        return np.asarray(np.where(named, np.maximum(self.probabilities, 1e-3), 0.0))

    @property
    def order(self) -> IntArray:
        """Rows in the order to look at them, shape (n_rows,)."""
        return np.argsort(np.asarray(self.columns["look"]), kind="stable")

    def to_columns(self, *, sort: bool = False) -> dict[str, list[Any]]:
        """Return every column of the input, then the answers.

        Parameters
        ----------
        sort : bool, default=False
            Whether rows come in the order to look at them instead of that of the input.

        Returns
        -------
        columns : dict of str to list
            An input column called as an answer is renamed to begin with `input_`.
        """
        merged = self.input_beside(self.columns) | self.columns
        if not sort:
            return merged
        order = self.order.tolist()
        return {name: [cells[row] for row in order] for name, cells in merged.items()}

    def input_beside(self, answers: Collection[str]) -> dict[str, list[Any]]:
        """Return the columns of the input under names that leave those of the answers free.

        Parameters
        ----------
        answers : collection of str
            Names of the columns that will stand beside them.

        Returns
        -------
        columns : dict of str to list
            Renamed to begin with `input_` where a name is taken.
        """
        called = rename_input_columns(self.rows.columns, answers)
        return {own: self.rows[name].to_list() for name, own in called.items()}

    def to_frame(self, *, sort: bool = False) -> Any:
        """Return the input and the answers as a polars frame.

        Parameters
        ----------
        sort : bool, default=False
            Whether rows come in the order to look at them.

        Returns
        -------
        frame : polars.DataFrame
            Use `.to_pandas()` for pandas.
        """
        import polars as pl

        return pl.DataFrame(self.to_columns(sort=sort), strict=False)

    def save(self, path: str | Path, *, sort: bool = False) -> None:
        """Write input and answers as .csv, .jsonl, .parquet or .xlsx.

        Parameters
        ----------
        path : str or Path
            The file; its suffix says the format.
        sort : bool, default=False
            Whether rows come in the order to look at them.
        """
        from groupnoise.io.answer_files import write_columns

        write_columns(Path(path), self.to_columns(sort=sort))


def resolve(
    source: Any,
    *,
    features: str | Sequence[str] | None = None,
    text: str | None = None,
    embedding: Any = None,
    embed: str | None = None,
    truth: str | None = None,
    known: Mapping[int, str] | None = None,
    n_folds: int = 5,
    n_rounds: int | None = None,
    n_members: int = 1,
    fit: Fit | None = None,
    random_state: int = 0,
    checkpoint: str | Path | None = None,
    report: Report | None = None,
    on_progress: ProgressCallback | None = None,
    **reading: Any,
) -> Resolution:
    """Give every row one label from what annotators said and from what similar rows are.

    The reliability of annotators and a classifier are learned from each other. What the classifier
    says of a row comes from a model that did not see it, so no row judges itself.

    Parameters
    ----------
    source : str, Path, frame or list of dict
        Rows with votes or candidate labels: a table, or an export of Label Studio or Argilla.
    features : str or list of str, optional
        Numeric columns to learn from; by default all that are neither ids nor row numbers.
    text : str, optional
        A column of text, read by TF-IDF; by default the column with the most words where there
        are no numeric ones.
    embedding : str, Path or array-like, optional
        One vector per row: a `.npy` file or an array.
    embed : str, optional
        A sentence-transformers model on this disk, by folder or name, that reads the text in
        place of TF-IDF; nothing is downloaded.
    truth : str, optional
        Column of true labels, empty where nobody knows; they teach who can be trusted. By default
        `answer` of a table that `review` exported.
    known : mapping of int to str, optional
        True labels of further rows, by row number from 0.
    n_folds : int, default=5
        Parts of the rows; each is answered by a model trained on the others.
    n_rounds : int, optional
        How often annotators and classifier are learned from each other; by default 2, and 3 of
        candidate labels, where all rounds answer together.
    n_members : int, default=1
        Networks that are averaged in each fold; kernels, which votes are learned from, are one.
    fit : callable, optional
        Trains another classifier: `fit(X, candidates, weights)` returns what has `predict_proba`.
    random_state : int, default=0
        Decides folds and initial weights.
    checkpoint : str or Path, optional
        A folder for finished trainings: called alike after an interruption, `resolve` goes on
        from there; at the end they are deleted.
    report : callable, optional
        Told of each guess, one sentence at a time.
    on_progress : callable, optional
        Told after each training how many of them are `done`, of `total`.
    **reading
        Parameters of `read_votes`, such as `annotators`, `candidates`, `votes` or `labels`.

    Returns
    -------
    resolution : Resolution
        Labels, probabilities, and the order to look at rows.
    """
    check_count("n_folds", n_folds, least=2)
    if n_rounds is not None:
        check_count("n_rounds", n_rounds)
    check_count("n_members", n_members)
    notes = Guesses(report)
    voted = read_votes(source, report=notes, **reading)
    # Labels that the user lists are spelt correctly.
    corrects_spelling = reading.get("labels") is None and not voted.is_candidates
    for sentence in vote_warnings(voted, corrects_spelling=corrects_spelling):
        notes(sentence)
    excluded = _excluded_columns(voted, truth)
    unused = None
    if reading.get("annotators") is None:
        unused = unused_vote_columns(voted, excluded)
    if unused is not None:
        notes(unused)
    known_labels = {**read_known_labels(voted, truth, notes), **(known or {})}
    if corrects_spelling:
        voted = replace(voted, votes=correct_habits(voted.votes, set(known_labels.values())))
    matrix = row_features(
        voted.table, features=features, text=text, embedding=embedding, embed=embed,
        taken=excluded, report=notes,
        answers=RowTargets(voted.votes.candidates(), voted.votes.class_names),
    )  # fmt: skip
    fits = default_fits(
        fit, matrix, random_state, is_candidates=voted.is_candidates, n_members=n_members
    )
    cache = None if checkpoint is None else PredictionCache(checkpoint)
    correct_labels = set(known_labels.values()) if corrects_spelling else voted.votes.class_names
    belief = infer_labels(
        correct_misspellings(voted.votes, correct_labels),
        matrix,
        is_candidates=voted.is_candidates,
        truth=_truth_codes(known_labels, voted.votes),
        n_folds=n_folds,
        n_rounds=n_rounds,
        fit=fits,
        seed=random_state,
        cache=cache,
        on_progress=on_progress,
    )
    if cache is not None:
        cache.clear()
    return _build_resolution(voted, belief, notes.sentences, known_labels, correct_labels)


def _build_resolution(
    voted: VotedRows,
    belief: Belief,
    notes: Sequence[str],
    known: Collection[int],
    correct_labels: Collection[str],
) -> Resolution:
    """Return the resolution from the posterior.

    `correct_labels`: labels that are known to be spelt correctly.
    """
    votes, corrected = voted.votes, correct_misspellings(voted.votes, correct_labels)
    probabilities = restore_spellings(belief.probabilities, votes, correct_labels)
    probabilities[list(known)] = belief.probabilities[list(known)]
    is_known = (votes.counts > 0) | (belief.predicted is not None)
    is_known[list(known)] = True
    reliability = None
    if belief.model is not None:
        reliability = belief.model.reliability(corrected, belief=belief.probabilities)
        reliability = drop_misspellings(reliability, votes, correct_labels)
    shares = corrected_shares(votes, correct_labels)
    columns = _answer_columns(voted, belief, probabilities, shares, is_known, list(known))
    probabilities[~is_known] = np.nan
    return Resolution(
        voted.table.frame,
        columns,
        votes,
        probabilities,
        belief,
        reliability,
        krippendorff_alpha(corrected),
        shares,
        list(notes),
    )


def _truth_codes(known: Mapping[int, str], votes: Votes) -> IntArray | None:
    if not known:
        return None
    truth = np.full(votes.n_rows, -1, dtype=np.int64)
    for row, label in known.items():
        if not 0 <= row < votes.n_rows or label not in votes.class_names:
            raise DataError(
                f"known says {label!r} of row {row}; rows go from 0 to {votes.n_rows - 1}, and "
                "labels must be among those that were said or given in `labels`."
            )
        truth[row] = votes.class_names.index(label)
    return truth


def _excluded_columns(voted: VotedRows, truth: str | None) -> set[str]:
    """Return columns of votes and of the truth, which must not be features."""
    named = {name for name in voted.table.frame.columns if is_truth_name(name)}
    beside = comment_columns(voted.table, voted.columns)
    return {*voted.columns, *beside, *named, *([truth] if truth is not None else [])}


def _answer_columns(
    voted: VotedRows,
    belief: Belief,
    probabilities: FloatArray,
    shares: FloatArray,
    is_known: Any,
    answered: Sequence[int],
) -> dict[str, list[Any]]:
    votes, names = voted.votes, voted.votes.class_names
    ranking = np.argsort(-probabilities, axis=1, kind="stable")
    rows = np.arange(votes.n_rows)
    best = ranking[:, 0]
    second = ranking[:, 1] if votes.n_classes > 1 else best
    for row in answered:
        second[row] = belief.likeliest_other(row, int(best[row]))
    top, next_best = probabilities[rows, best], probabilities[rows, second]
    # Rows without evidence come first, then the least sure.
    order = np.lexsort((top - next_best, np.where(is_known, top, -1.0)))
    look = np.empty(votes.n_rows, dtype=np.int64)
    look[order] = np.arange(1, votes.n_rows + 1)
    has_second = votes.n_classes > 1

    def where_known(cells: Sequence[Any]) -> list[Any]:
        return [cell if is_known[row] else None for row, cell in enumerate(cells)]

    return {
        "label": where_known([names[k] for k in best]),
        "probability": where_known(np.round(top, 6).tolist()),
        "second": where_known([names[k] if has_second else None for k in second]),
        "margin": where_known(np.round(top - next_best if has_second else top, 6).tolist()),
        "agreement": [
            round(float(shares[row, best[row]]), 6) if votes.counts[row] else None for row in rows
        ],
        "why": explain_labels(voted, belief),
        "look": look.tolist(),
    }
