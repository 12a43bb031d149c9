"""`groupnoise select`: a model and bags in, the objects that carry their labels out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupnoise.cli.options import DataOptions, reads_data
from groupnoise.exceptions import ParameterError


@reads_data
def select(
    model: Annotated[Path, typer.Argument(help="Folder written by `groupnoise fit`.")],
    data: Annotated[str, typer.Argument(help="Bags, as in `groupnoise fit`; labels or none.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File: .csv, .jsonl, .parquet, .xlsx.")
    ],
    options: DataOptions,
    top: Annotated[int, typer.Option(help="Objects per bag and label, the best first.")] = 1,
) -> None:
    """Say which objects carry the labels of each bag, and with what responsibility.

    Bags without labels are asked about the label that the model gives them.

    Example: groupnoise select model bags.csv -o witnesses.csv --top 3
    """
    from groupnoise.bags.object_answers import answer_objects, best_objects
    from groupnoise.cli.heatmap import with_labels_if_any
    from groupnoise.core.checks import check_count
    from groupnoise.io.answer_files import check_format, write_columns
    from groupnoise.io.files import check_not_own_input, check_writable_file

    check_format(output)
    check_count("--top", top)
    check_not_own_input(output, data)
    check_writable_file(output)
    fitted, found = with_labels_if_any(model, data, options)
    if found.setting.name != "mil":
        raise ParameterError(f"select is about bags; {data} is {found.setting.name} data.")
    columns = best_objects(answer_objects(fitted, found.dataset), found.dataset, top)
    write_columns(output, columns)
    typer.echo(f"{len(columns['bag'])} objects of {len(found.dataset.bags)} bags: {output}")
