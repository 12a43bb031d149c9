"""`groupnoise evaluate`: a model folder and data with truth in, metrics out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.exceptions import DataError

if TYPE_CHECKING:
    from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset
    from groupnoise.io.named import Dataset


def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder written by `groupnoise fit`.")],
    data: Annotated[str, typer.Argument(help="As in `groupnoise fit`.")],
    setting: Annotated[
        str | None, typer.Option(help="Read a file as mil, pll or rs; columns are guessed.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the sampled negatives (rs).")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Searched first for named data sets.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Measure a model: accuracy where the truth is known, covering rate, HIT@10 and NDCG@10.

    Histories are evaluated by leaving out their last click.
    """
    from groupnoise.cli.sources import find_model_and_data

    fitted, dataset = find_model_and_data(model, data, setting, data_dir)
    metrics = _metrics(fitted, dataset, seed)
    if as_json:
        typer.echo(json.dumps({"model": str(model), "data": dataset.name, **metrics}, indent=2))
        return
    for name, value in metrics.items():
        typer.echo(f"{name:<24}{value:.4f}")


def _metrics(fitted: Any, dataset: Dataset, seed: int) -> dict[str, float]:
    from groupnoise.io.datasets import BagDataset, PartialLabelDataset

    if isinstance(dataset, BagDataset):
        return _bag_metrics(fitted, dataset)
    if isinstance(dataset, PartialLabelDataset):
        return _candidate_metrics(fitted, dataset)
    return _click_metrics(fitted, dataset, seed)


def _bag_metrics(fitted: Any, dataset: BagDataset) -> dict[str, float]:
    import numpy as np

    names = np.asarray(dataset.class_names)
    bags = fitted.predict_bags(dataset.bags)
    right = [bag in names[row] for bag, row in zip(bags, dataset.labels, strict=True)]
    metrics = {"bag accuracy": float(np.mean(right))}
    if dataset.instance_labels is not None:
        known = dataset.instance_labels >= 0
        predicted = fitted.predict(dataset.bags.objects[known])
        metrics["instance accuracy"] = float(
            np.mean(predicted == names[dataset.instance_labels[known]])
        )
    return metrics


def _candidate_metrics(fitted: Any, dataset: PartialLabelDataset) -> dict[str, float]:
    import numpy as np

    names = np.asarray(dataset.class_names)
    predicted = fitted.predict(dataset.features)
    covered = [one in names[row] for one, row in zip(predicted, dataset.candidates, strict=True)]
    metrics = {"covering rate": float(np.mean(covered))}
    if dataset.truth is not None and (dataset.truth >= 0).any():
        known = dataset.truth >= 0
        metrics["accuracy"] = float(np.mean(predicted[known] == names[dataset.truth[known]]))
    return metrics


def _click_metrics(fitted: Any, dataset: ClickDataset, seed: int) -> dict[str, float]:
    import numpy as np

    from groupnoise.cli.holdout import protocols_for
    from groupnoise.clicks.ranking import rank_targets
    from groupnoise.core.groups import Groups
    from groupnoise.core.metrics import hit_at_k, ndcg_at_k

    indexed = fitted.catalogue_.index([dataset.item_ids[h] for h in dataset.histories])
    sizes = np.diff(indexed.offsets)
    rows = np.flatnonzero(sizes > 1)
    if len(rows) == 0:
        raise DataError("no history has two items this model knows; nothing can be evaluated.")
    whole = Groups.from_lists(
        indexed.items[indexed.offsets[row] : indexed.offsets[row + 1]] for row in rows
    )
    last = whole.offsets[1:] - 1
    before = np.delete(whole.objects, last)
    offsets = np.concatenate([[0], np.cumsum(whole.sizes - 1)])
    tests = Groups(before, offsets, whole.objects[last])
    metrics = {}
    for protocol in protocols_for(tests, fitted.n_items_):
        ranks = rank_targets(fitted, tests, fitted.n_items_, protocol, random_state=seed)
        metrics[f"{protocol} HIT@10"] = hit_at_k(*ranks)
        metrics[f"{protocol} NDCG@10"] = ndcg_at_k(*ranks)
    return metrics
