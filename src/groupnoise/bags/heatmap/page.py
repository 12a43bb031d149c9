"""The page of heat maps: one file for many bags, which needs nothing beside itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groupnoise.bags.heatmap.cards import MAX_CLASSES, VALUES, make_card, make_gallery
from groupnoise.bags.heatmap.sources import Sources
from groupnoise.bags.object_answers import ObjectAnswers
from groupnoise.io.datasets import BagDataset
from groupnoise.io.files import write_text
from groupnoise.pages.render import render_page


def heatmap_page(
    answers: ObjectAnswers,
    dataset: BagDataset,
    sources: Sources,
    *,
    max_bags: int = 200,
    n_gallery: int = 10,
    command: str = "",
) -> str:
    """Return heat maps of bags as the text of a page.

    Parameters
    ----------
    answers : ObjectAnswers
        What the model said.
    dataset : BagDataset
        The bags, with labels or without.
    sources : Sources
        What they were cut from.
    max_bags : int, default=200
        How many bags are shown; mistakes come first.
    n_gallery : int, default=10
        How many objects of each class the gallery shows at either end.
    command : str, default=""
        What was typed, for those who want to repeat it.

    Returns
    -------
    str
        HTML.
    """
    shown = range(len(answers))
    if len(answers) > max_bags:
        wrong = [_is_wrong(bag, answers, dataset) for bag in shown]
        first = sorted(shown, key=lambda bag: not wrong[bag])[:max_bags]
        kept = sorted(first)
    else:
        kept = list(shown)
    cards = [make_card(bag, answers, dataset, sources) for bag in kept]
    galleries = [
        (name, *make_gallery(label, n_gallery, answers, dataset, sources))
        for label, name in enumerate(answers.class_names[: 2 * MAX_CLASSES])
    ]
    given = sorted({label for card in cards for label in card.given.split(";") if label})
    return render_page(
        "heatmap.html",
        package="groupnoise.bags.heatmap",
        name=dataset.name,
        n_bags=len(answers),
        n_objects=int(answers.offsets[-1]),
        cards=cards,
        class_names=answers.class_names,
        labels=given,
        values=VALUES,
        galleries=galleries,
        has_labels=bool(dataset.class_names),
        command=command,
    )


def write_heatmap_page(path: Path | str, page: str) -> None:
    """Write a page, whole or not at all.

    Parameters
    ----------
    path : path
        The file to write.
    page : str
        What `heatmap_page` returned.
    """
    write_text(Path(path), page)


def _is_wrong(bag: int, answers: ObjectAnswers, dataset: Any) -> bool:
    if not dataset.class_names:
        return False
    given = {
        name for name, has in zip(dataset.class_names, dataset.labels[bag], strict=True) if has
    }
    return given != set(answers.predicted[bag].split(";"))
