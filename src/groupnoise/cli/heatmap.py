"""`groupnoise embed`, `heatmap` and `select`: features of raw files, and objects with labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from groupnoise.cli.options import (
    DataOptions,
    ModelFolder,
    Quiet,
    argument,
    check_output,
    counted_bars,
    describe_options,
    echo_err,
    option,
    with_data_options,
)
from groupnoise.cli.sources import LoadedData, load_model_and_data
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingColumnError, MissingDataError, ParameterError


@with_data_options
@describe_options(
    data=argument("Bags, as in `groupnoise fit`, with or without labels."),
    output=option("HTML page to write.", "-o"),
    sources=option(
        "Pictures or texts to draw the answers over, named like the bags.",
        show_default="what `groupnoise embed` was given, or thumbnails of TRIDENT",
    ),
    downsample=option(
        "Coordinate units per pixel of these pictures.",
        show_default="what files of TRIDENT say, or 1",
    ),
    max_bags="Maximum number of bags on the page, mistakes first.",
    gallery="Number of top and bottom objects to show per class.",
)
def heatmap(
    model: ModelFolder,
    data: str,
    options: DataOptions,
    output: Path = Path("heatmap.html"),
    sources: Path | None = None,
    downsample: float | None = None,
    max_bags: int = 200,
    gallery: int = 10,
) -> None:
    """Draw which objects carried a label over pictures, grids, texts or timelines.

    Example: groupnoise heatmap model features -o heatmap.html
    """
    from groupnoise.bags.embedding.sources import find_sources
    from groupnoise.bags.heatmap import heatmap_page
    from groupnoise.bags.object_predictions import predict_objects
    from groupnoise.core.checks import check_count
    from groupnoise.io.files import write_text
    from groupnoise.reproduce.provenance import spell_command

    if output.suffix == "":
        output = output.with_suffix(".html")
    if output.suffix not in (".html", ".htm"):
        raise ParameterError(f"--output must end in .html, or in nothing; got {output.name!r}.")
    check_count("--max-bags", max_bags)
    check_count("--gallery", gallery, least=0)
    check_output(output, data)
    fitted, found = load_bags(model, data, options, "heat maps are of")
    raw = find_sources(data, sources, downsample, echo_err)
    answers = predict_objects(fitted, found.dataset)
    without = [bag for bag in answers.bag_ids if bag not in raw.files] if raw.files else []
    if len(without) == len(answers):
        raise DataError(f"no file of {sources or 'the sources'} is named as a bag of {data}.")
    page = heatmap_page(
        answers,
        found.dataset,
        raw,
        max_bags=max_bags,
        n_gallery=gallery,
        command=spell_command(sys.argv[1:]),
    )
    write_text(output, page)
    where = answers.coordinates
    beyond = [
        name
        for bag, name in enumerate(answers.bag_ids[:max_bags])
        if name in raw.files and answers.is_placed and where is not None
        and not raw.holds(name, where[answers.part(bag)])
    ]  # fmt: skip
    if beyond:
        echo_err(
            f"objects of {counted(len(beyond), 'bags')}, first {beyond[0]!r}, lie beyond their "
            "pictures, which are left out; say with --downsample how many units of the coordinates "
            "a pixel is"
        )
    if without:
        echo_err(f"{counted(len(without), 'bags')} without a source, first {without[0]!r}")
    shown = min(len(answers), max_bags)
    more = f"; mistakes come first, and --max-bags {len(answers)} shows all"
    typer.echo(
        f"heat maps of {shown} of {counted(len(answers), 'bags')} written to {output}"
        + more * (shown < len(answers))
    )


def load_bags(model: Path, data: str, options: DataOptions, what: str) -> tuple[Any, LoadedData]:
    """Load a model and bags, with their labels if there are any.

    `what`: the beginning of the error message about other data.
    """
    from groupnoise.bags.reading.folder import is_bag_folder
    from groupnoise.bags.reading.label_table import find_label_table

    try:
        fitted, found, _ = load_model_and_data(model, data, options)
    except (DataError, MissingDataError) as error:
        if "labels" in options.given:
            raise
        # There may be no labels; any other error is raised again.
        fitted, found, _ = load_model_and_data(model, data, options, needs_labels=False)
        says_labels = not is_bag_folder(data, labels_needed=False)
        says_labels |= Path(data).is_dir() and find_label_table(Path(data)) is not None
        if says_labels and not isinstance(error, MissingColumnError):
            echo_err(f"labels are ignored: {error}")
    if found.setting.name != "mil":
        raise ParameterError(f"{what} bags; {data} is {found.setting.name} data.")
    return fitted, found


@with_data_options
@describe_options(
    data=argument("Bags, as in `groupnoise fit`, with or without labels."),
    output=option("File: .csv, .jsonl, .parquet, .xlsx.", "-o"),
    top="Objects per bag and label, best first.",
)
def select(model: ModelFolder, data: str, output: Path, options: DataOptions, top: int = 1) -> None:
    """List which objects carry the labels of each bag, with their responsibilities.

    Where the data has no labels, bags are asked about what the model gives them. No object
    carries the negative label, or none: of such a bag the line is empty but for its label.

    Example: groupnoise select model bags.csv -o witnesses.csv --top 3
    """
    from groupnoise.bags.object_predictions import predict_objects, top_objects
    from groupnoise.core.checks import check_count
    from groupnoise.io.answer_files import check_format, write_columns

    check_format(output)
    check_count("--top", top)
    check_output(output, data)
    fitted, found = load_bags(model, data, options, "select is about")
    columns = top_objects(predict_objects(fitted, found.dataset), found.dataset, top)
    write_columns(output, columns)
    n_empty = sum(row is None for row in columns["row"])
    n_objects, n_bags = len(columns["bag"]) - n_empty, len(found.dataset.bags)
    empty = "; {} of no label that an object carries: the other cells of their lines are empty"
    typer.echo(
        f"{counted(n_objects, 'objects')} of {counted(n_bags, 'bags')}: {output}"
        + (empty.format(counted(n_empty, "bags")) if n_empty else "")
    )


@describe_options(
    folder=argument("Pictures, texts or recordings, one per bag, also in folders by label."),
    output=argument("Folder of features to write."),
    kind="pictures, texts or recordings, if FOLDER holds several kinds.",
    size=option("Size of a tile in pixels, or of a segment in seconds.", show_default="64, or 1"),
    stride=option("Step from one tile or segment to the next.", show_default="--size"),
    background=option(
        "Leave out tiles that vary less, or segments less loud, from 0 to 1.",
        show_default="0.02, or 0.001",
    ),
    to="File format: npz or h5.",
    like="Embed the same way as this folder, for models trained on it.",
    encoder="Local model to embed tiles or sentences: timm:NAME, "
    "open_clip:NAME, sentence-transformers:FOLDER, or FILE.py:NAME, a torch module of "
    "your own.",
    weights="Weights of the encoder: .safetensors, or tensors in .pt.",
)
def embed(
    folder: Path,
    output: Path,
    kind: str | None = None,
    size: float | None = None,
    stride: float | None = None,
    background: float | None = None,
    to: str = "npz",
    like: Path | None = None,
    encoder: str | None = None,
    weights: Path | None = None,
    quiet: Quiet = False,
) -> None:
    """Cut files into objects and compute features of each, without downloads.

    Example: groupnoise embed pictures/ features/ --size 32
    """
    from groupnoise.bags.embedding.folder import embed_folder
    from groupnoise.io.files import check_not_own_input

    check_not_own_input(output, folder)
    with counted_bars(("describing",), quiet) as show:
        made = embed_folder(
            folder, output, kind=kind, size=size, stride=stride, background=background, form=to,
            like=like, encoder=encoder, weights=weights,
            on_file=lambda done, total: show({"stage": "describing", "done": done, "total": total}),
            report=echo_err,
        )  # fmt: skip
    left_out = f" ({made.n_dropped} of background left out)" if made.n_dropped else ""
    bags = f"{counted(made.n_bags, made.kind)}, {counted(made.n_objects, 'objects')}"
    typer.echo(f"{bags}{left_out} written to {output}")
