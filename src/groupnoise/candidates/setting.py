"""Candidate labels (partial-label learning) behind the commands, and what a model is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.candidates.label_issues import PartialLabelSource
from groupnoise.candidates.reading import read_candidates
from groupnoise.core.arrays import FloatArray, IntArray, first_equal_rows
from groupnoise.core.checks import check_features
from groupnoise.core.class_metrics import (
    add_class_metrics,
    align_columns,
    calibration_metrics,
    class_frequencies,
    class_metrics,
    class_positions,
    frequency_array,
    indicator_to_labels,
    known_label_names,
    majority_metrics,
    match_classes,
)
from groupnoise.core.label_sets import check_equal_rows, read_candidate_sets
from groupnoise.core.selective import risk_coverage
from groupnoise.core.words import counted
from groupnoise.io.datasets import PartialLabelDataset, subset_rows
from groupnoise.io.description import (
    Description,
    add_features,
    count_oddity,
    histogram_of_classes,
    histogram_of_sizes,
)
from groupnoise.io.hold_out import draw_held_out
from groupnoise.io.labels.spellings import match_model_labels
from groupnoise.io.setting import (
    Answers,
    Evaluation,
    RowLabels,
    Setting,
    bytes_of_values,
    check_labels_given,
    check_two_labels,
)

TOP = 3
"""Classes of the top-k accuracy, one less than there are if these are few."""
AMONG_CANDIDATES = "best candidate accuracy"
"""Accuracy of the most probable candidate."""


class CandidateSetting(Setting[PartialLabelDataset]):
    """Rows with candidate labels, one of them right."""

    name = "pll"
    units = "rows"
    object_name = "instance"
    column_options = ("candidates", "truth", "features", "label_separator", "keep_label", "fill")
    models = ("predict_proba",)
    read = staticmethod(read_candidates)
    subset = staticmethod(subset_rows)
    audit_source = PartialLabelSource

    def n_groups(self, dataset: PartialLabelDataset) -> int:
        """Return how many rows there are."""
        return len(dataset.features)

    def hold_out(self, dataset: PartialLabelDataset, share: float, seed: int) -> IntArray:
        """Return rows to hold out of training, equal rows together, never the last of a class."""
        clusters = first_equal_rows(dataset.features)
        return draw_held_out(dataset.candidates, share, seed, clusters=clusters)

    def check_labels(self, dataset: PartialLabelDataset) -> None:
        """Refuse rows that all have the same candidate."""
        columns = (dataset.columns or {}).get("candidates")
        check_two_labels(columns, dataset.candidates, dataset.class_names)

    def arguments(self, dataset: PartialLabelDataset) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the rows, the names of their candidates, and their weights if they have some."""
        names = indicator_to_labels(dataset.candidates, dataset.class_names)
        weights = {} if dataset.weights is None else {"candidate_weights": dataset.weights}
        return (dataset.features, names), weights

    def known_labels(self, dataset: PartialLabelDataset) -> list[str | None] | None:
        """Return the true labels that are known."""
        return known_label_names(dataset.truth, dataset.class_names)

    def evaluate(
        self,
        fitted: Any,
        dataset: PartialLabelDataset,
        rows: IntArray | None = None,
        *,
        seed: int = 0,
        shares: Mapping[str, Any] | None = None,
    ) -> Evaluation:
        """Measure by the candidates, and by the truth where it is known."""
        part = dataset if rows is None else subset_rows(dataset, rows)
        return evaluate_candidates(fitted, part, shares)

    def shares(self, dataset: PartialLabelDataset, held_out: IntArray) -> dict[str, Any]:
        """Return how frequent candidates are, and true labels where they are known."""
        names, truth = dataset.class_names, dataset.truth
        shares = {
            "candidates": class_frequencies(np.delete(dataset.candidates, held_out, axis=0), names)
        }
        if truth is not None and (truth >= 0).any():
            truth = np.delete(truth, held_out)
            labels = truth[truth >= 0][:, None] == np.arange(len(names))
            shares["truth"] = class_frequencies(labels, names)
        return shares

    def answer(
        self, fitted: Any, dataset: PartialLabelDataset, *, top: int = 10, exclude_seen: bool = True
    ) -> Answers:
        """Return a label for each row, and the best of its candidates where it has some."""
        dataset, _ = _with_model_spelling(fitted, dataset)
        probabilities = fitted.predict_proba(dataset.features)
        best = probabilities.argmax(axis=1)
        columns: dict[str, list[Any]] = {
            "row": list(range(len(best))),
            "label": fitted.classes_[best].tolist(),
            "probability": [float(row[k]) for row, k in zip(probabilities, best, strict=True)],
        }
        if dataset.class_names:
            inside = among_candidates(dataset, fitted.classes_, probabilities)
            labels = fitted.classes_[inside.argmax(axis=1)].tolist()
            # A row whose candidates the model has never seen has no best one.
            has_some = (inside.max(axis=1) >= 0).tolist()
            columns["best_candidate"] = [
                label if is_known else None
                for label, is_known in zip(labels, has_some, strict=True)
            ]
        return Answers(columns, np.arange(len(best)))

    def describe(self, dataset: PartialLabelDataset) -> Description:
        """Return candidates, classes, truth and oddities."""
        return describe_candidates(dataset)

    def summary(self, dataset: PartialLabelDataset) -> str:
        """Return the numbers of rows, classes and candidates."""
        counts = f"{counted(len(dataset.features), 'rows')}, "
        counts += counted(len(dataset.class_names), "classes")
        mean = dataset.candidates.sum() / len(dataset.candidates)
        return f"{counts}, {mean:.2f} candidates per row"

    def dataset_of(self, groups: Any, targets: Any) -> PartialLabelDataset:
        """Return a data set of rows and their candidates."""
        check_labels_given(targets)
        features = check_features("X", groups)
        candidates, classes = read_candidate_sets(targets)
        check_equal_rows(features, candidates)
        names = [str(label) for label in classes.tolist()]
        return PartialLabelDataset("rows", features, candidates, names)

    def row_labels(self, dataset: PartialLabelDataset) -> RowLabels | None:
        """Return each row with its candidates."""
        if dataset.source_rows is None or dataset.columns is None:
            return None
        return RowLabels(
            dataset.source_rows,
            dataset.columns["candidates"],
            dataset.class_names,
            dataset.candidates,
        )

    def content(self, dataset: PartialLabelDataset) -> Iterable[Any]:
        """Yield rows and candidates."""
        yield from (dataset.features, dataset.candidates, dataset.class_names)

    def features(self, dataset: PartialLabelDataset) -> FloatArray:
        """Return the features of all rows."""
        return dataset.features

    def group_content(self, dataset: PartialLabelDataset, row: int) -> bytes:
        """Return the features and the candidates of a row."""
        names = [dataset.class_names[label] for label in np.flatnonzero(dataset.candidates[row])]
        return "\0".join(names).encode() + bytes_of_values(dataset.features[row])


def among_candidates(
    dataset: PartialLabelDataset, classes: NDArray[Any], probabilities: FloatArray
) -> FloatArray:
    """Return the probabilities of a model's classes, -1 at those that are no candidates."""
    inside = np.full(probabilities.shape, -1.0)
    columns = match_classes(dataset.class_names, classes)
    for column, is_candidate in zip(columns, dataset.candidates.T, strict=True):
        if column >= 0:
            inside[is_candidate, column] = probabilities[is_candidate, column]
    return inside


SETTING = CandidateSetting()


def describe_candidates(dataset: PartialLabelDataset) -> Description:
    """Return candidates, class balance, truth and oddities of rows."""
    names = dataset.class_names
    n_candidates = dataset.candidates.sum(axis=1)
    n_candidate_of = dataset.candidates.sum(axis=0)
    draft = Description(dataset.name, "pll")
    draft.facts |= {
        "rows": len(dataset.features),
        "features": dataset.features.shape[1],
        "classes": len(names),
        "candidates per row, mean": float(n_candidates.mean()),
        "fraction of rows with several candidates": float((n_candidates > 1).mean()),
    }
    draft.histograms += [
        histogram_of_sizes("Candidates per row", n_candidates),
        histogram_of_classes("Rows each class is a candidate of", n_candidate_of, names),
    ]
    add_features(draft, dataset.features)
    draft.oddities += count_oddity(n_candidate_of == 0, "classes", "in no candidate set", names)
    if dataset.truth is None:
        draft.oddities.append("no true label is known, so predictions cannot be scored")
    else:
        _add_label_truth(draft, dataset, dataset.truth)
    return draft


def _add_label_truth(draft: Description, dataset: PartialLabelDataset, truth: IntArray) -> None:
    """Add how often each class is the truth, and where truth is unknown or no candidate."""
    names = dataset.class_names
    known = truth >= 0
    is_inside = dataset.candidates[np.arange(len(truth)), np.maximum(truth, 0)]
    n_true_of = np.bincount(truth[known], minlength=len(names))
    draft.facts["rows without truth"] = int((~known).sum())
    draft.histograms.append(
        histogram_of_classes("Rows each class is the truth of", n_true_of, names)
    )
    draft.oddities += [
        *count_oddity(~known, "rows", "without a true label"),
        *count_oddity(known & ~is_inside, "rows", "with a true label outside the candidates"),
        *count_oddity(n_true_of == 0, "classes", "true of no row", names),
    ]


def _with_model_spelling(
    fitted: Any, dataset: PartialLabelDataset
) -> tuple[PartialLabelDataset, list[str]]:
    """Return rows with the labels as a model spells them, and notes about those that differ."""
    known = [str(label) for label in fitted.classes_.tolist()]
    names, candidates, truth, notes = match_model_labels(
        dataset.class_names, dataset.candidates, dataset.truth, known, "rows"
    )
    weights = dataset.weights if len(names) == len(dataset.class_names) else None
    spelt = replace(dataset, class_names=names, candidates=candidates, truth=truth, weights=weights)
    return spelt, notes


def evaluate_candidates(
    fitted: Any, dataset: PartialLabelDataset, shares: Mapping[str, Any] | None = None
) -> Evaluation:
    """Measure a model on rows with candidate labels.

    The covering rate says how often the answer is a candidate. Where the truth of rows is known:
    accuracy, accuracy of the best candidate of each row, accuracy among the best few classes,
    balanced accuracy, AUROC, average precision, F1, the expected calibration error and the log loss
    (beside those of the frequencies of classes), and the area below the risk-coverage curve: the
    mean share of wrong answers when only the surest rows are answered, over all numbers of them.

    `fitted`: ours or a baseline. `shares`: how frequent labels were in training, as
    `CandidateSetting.shares` says it; where that is not known, labels of these rows are counted.
    """
    dataset, notes = _with_model_spelling(fitted, dataset)
    columns = match_classes(dataset.class_names, fitted.classes_)
    probabilities = np.asarray(fitted.predict_proba(dataset.features), dtype=np.float64)
    aligned = align_columns(probabilities, columns)
    n_classes = len(dataset.class_names)
    predicted = class_positions(fitted.predict(dataset.features), fitted.classes_, columns)
    rows = np.arange(len(predicted))
    covered = dataset.candidates[rows, np.maximum(predicted, 0)] & (predicted >= 0)
    known_rates = {
        name: frequency_array(each, dataset.class_names) for name, each in (shares or {}).items()
    }
    of_candidates = known_rates.get("candidates")
    if of_candidates is None:
        of_candidates = dataset.candidates.mean(axis=0)
    frequent = int(of_candidates[:n_classes].argmax())
    metrics = {"covering rate": float(covered.mean())}
    majority = {"covering rate": float(dataset.candidates[:, frequent].mean())}
    counts = {"groups": len(predicted)}
    per_class: dict[str, dict[str, float]] = {}
    curves: dict[str, dict[str, list[float]]] = {}
    if dataset.truth is not None and (dataset.truth >= 0).any():
        known = dataset.truth >= 0
        truth = dataset.truth[known]
        counts["rows with known truth"] = int(known.sum())
        labels = truth[:, None] == np.arange(n_classes)
        figures, by_class = class_metrics(labels, predicted[known], aligned[known])
        metrics |= figures
        of_truth = known_rates.get("truth")
        rates = labels.mean(axis=0) if of_truth is None else of_truth[:n_classes]
        majority |= majority_metrics(labels, rates=rates)
        n_top = min(TOP, n_classes - 1)
        if n_top > 1:
            best = np.argsort(-aligned[known], axis=1, kind="stable")[:, :n_top]
            metrics[f"top-{n_top} accuracy"] = float((best == truth[:, None]).any(axis=1).mean())
            most = np.argsort(-rates, kind="stable")[:n_top]
            majority[f"top-{n_top} accuracy"] = float(np.isin(truth, most).mean())
        metrics[AMONG_CANDIDATES], majority[AMONG_CANDIDATES] = (
            float(
                (np.where(dataset.candidates[known], scores, -1.0).argmax(axis=1) == truth).mean()
            )
            for scores in (aligned[known], np.tile(rates, (len(truth), 1)))
        )
        calibration, of_rates = calibration_metrics(
            labels, aligned[known], None if of_truth is None else rates
        )
        metrics |= calibration
        majority |= of_rates
        sure, right = aligned[known].max(axis=1), predicted[known] == truth
        curve = risk_coverage(sure, right)
        metrics["risk-coverage area"] = curve.area
        majority["risk-coverage area"] = 1.0 - majority["accuracy"]
        curves["rows"] = curve.points()
        add_class_metrics(per_class, dataset.class_names, labels, by_class, "rows")
    return Evaluation(metrics, counts, majority, per_class, tuple(notes), curves=curves)
