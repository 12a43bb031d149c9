"""From a folder of pictures, texts or recordings to a folder with one file of features per bag."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.bags.embedding import CutOptions, Embedded
from groupnoise.bags.embedding.builtin_features import (
    PICTURES,
    RECORDINGS,
    TEXTS,
    check_cut,
    learn_words,
)
from groupnoise.bags.reading.label_table import find_label_table, labels_from_folders
from groupnoise.bags.reading.labels import KnownLabels
from groupnoise.bags.reading.names import files_by_bag
from groupnoise.core.checks import check_choice, require
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingDataError, ParameterError
from groupnoise.io.files import read_json, write_json
from groupnoise.io.folders.data_folder import new_data_folder
from groupnoise.io.local_encoders import load_encoder
from groupnoise.io.tables.sources import Report, ignore_report

RECORD = "embedding.json"
"""Records how a folder was made, so that new files can be embedded alike and sources be found."""
KINDS = {"pictures": PICTURES, "texts": TEXTS, "recordings": RECORDINGS}
NOTICES = ("readme", "license", "licence", "copying", "notice", "changelog", "credits")
"""Names of texts that accompany files of another kind and are no bags."""
FORMS = ("npz", "h5")
CUSTOM_ENCODER = "a callable of the user's own"


@dataclass(frozen=True)
class EmbeddedFolder:
    """How a folder of raw files was embedded.

    `kind`: "pictures", "texts" or "recordings".
    `cut`: how the files were cut.
    `n_bags`, `n_objects`, `n_dropped`: the numbers of files, of their objects, and of objects left
        out as background.
    `source`: the folder of the raw files, relative to that of the features.
    `encoder`: the name of the encoder, empty for the built-in features.
    `weights`: the file of its weights, empty where there is none.
    """

    kind: str
    cut: CutOptions
    n_bags: int
    n_objects: int
    n_dropped: int
    source: str
    encoder: str = ""
    weights: str = ""


def embed_folder(
    folder: str | Path,
    output: str | Path,
    *,
    kind: str | None = None,
    size: float | None = None,
    stride: float | None = None,
    background: float | None = None,
    form: str = "npz",
    like: str | Path | None = None,
    encoder: Callable[[Any], Any] | str | None = None,
    weights: str | Path | None = None,
    on_file: Callable[[int, int], None] | None = None,
    report: Report | None = None,
) -> EmbeddedFolder:
    """Cut every file of a folder into objects, describe them, and write one file per bag.

    Nothing is downloaded: pictures are described by colour, brightness, gradients and texture of
    their tiles, texts by the TF-IDF weights of their sentences, recordings by log-mel statistics of
    their segments.

    Parameters
    ----------
    folder : path
        Pictures, texts or recordings (.wav), one per bag; a `labels.csv` in it is copied. Folders
        below are kept as they are: without a table, `fit` takes their names as labels.
    output : path
        The folder to write, which must not exist.
    kind : {"pictures", "texts", "recordings"}, optional
        By default what the suffixes say.
    size : float, optional
        Pixels of a tile (64) or seconds of a segment (1).
    stride : float, optional
        From one object to the next; by default the size.
    background : float, optional
        Tiles whose brightness has a smaller standard deviation (0.02), or segments less loud
        (0.001), are left out.
    form : {"npz", "h5"}, default="npz"
        What to write.
    like : path, optional
        A folder written earlier, whose way of cutting and whose words are used again, as new files
        for a model need.
    encoder : callable or str, optional
        Describes tiles of pictures instead, given float32 of shape (n, 3, size, size) (a torch
        module is given tensors), or sentences, given a list of them. As text: "timm:NAME",
        "open_clip:NAME", "sentence-transformers:FOLDER", or "FILE.py:NAME" for a torch module of
        your own or a function that makes one; all of them from this disk.
    weights : path, optional
        File of the weights of an encoder that is named: safetensors, or tensors of torch.
    on_file : callable, optional
        Called with the number of files done and of all.
    report : callable, optional
        Told which labels folders are called by, one sentence at a time.

    Returns
    -------
    EmbeddedFolder
        What was made.
    """
    folder, output = Path(folder), Path(output)
    check_choice("form", form, FORMS)
    if (output / RECORD).is_file():
        raise DataError(f"{output} was embedded already; delete it first, or give another name.")
    if form == "h5":
        require("h5py", extra="h5")
    earlier = None if like is None else read_record(Path(like))
    if earlier is not None and (size, stride, background) != (None, None, None):
        raise ParameterError("like= says how files are cut; leave out size, stride and background.")
    kind, named_files = find_raw_files(
        folder, kind or (None if earlier is None else earlier.kind), report or ignore_report
    )
    raw, files = KINDS[kind], list(named_files.values())
    named = encoder if isinstance(encoder, str) else CUSTOM_ENCODER if encoder is not None else ""
    if earlier is not None and earlier.encoder != named:
        if named or earlier.encoder == CUSTOM_ENCODER:
            raise ParameterError(
                f"{like} was described by {earlier.encoder or 'the built-in descriptor'}; give the "
                "same encoder."
            )
        encoder, named, weights = earlier.encoder, earlier.encoder, earlier.weights or None
    if weights is not None and not isinstance(encoder, str):
        raise ParameterError("weights belong to an encoder that is named; give its name too.")
    if encoder is not None and kind == "recordings":
        raise ParameterError(f"an encoder describes pictures or texts; {folder} holds {kind}.")
    if isinstance(encoder, str):
        encoder = load_encoder(encoder, weights)
    if earlier is not None:
        cut = earlier.cut
    else:
        size = raw.defaults.size if size is None else size
        cut = CutOptions(
            size=size,
            stride=size if stride is None else stride,
            background=raw.defaults.background if background is None else background,
        )
        if kind == "texts" and encoder is None:
            cut = replace(cut, state=learn_words(files))
    if kind == "pictures":
        check_cut(cut)
    names = None if encoder is not None else raw.feature_names(cut)
    n_objects = n_dropped = 0
    with new_data_folder(output) as building:
        for number, path in enumerate(files):
            embedded = raw.embed(path, cut, encoder)
            target = building / path.relative_to(folder).with_suffix(f".{form}")
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, embedded, names, raw.coordinate_names)
            n_objects += len(embedded.features)
            n_dropped += embedded.n_dropped
            if on_file is not None:
                on_file(number + 1, len(files))
        if (table := find_label_table(folder)) is not None:
            shutil.copyfile(table, building / table.name)
        elif report is not None:
            relative = [path.relative_to(folder) for path in files]
            labels_from_folders(relative, str(folder), report, KnownLabels())
        source = os.path.relpath(folder.resolve(), output.resolve())
        of_encoder = (named, "" if weights is None else str(weights))
        made = EmbeddedFolder(kind, cut, len(files), n_objects, n_dropped, source, *of_encoder)
        write_json(building / RECORD, asdict(made))
    return made


def find_raw_files(
    folder: Path, kind: str | None = None, report: Report = ignore_report
) -> tuple[str, dict[str, Path]]:
    """Return the kind of the raw files of a folder, and the files by bag name, in their order.

    There is at least one file, directly in the folder or, if it has none, in folders below.

    `folder`: raw files of one kind. `kind`: "pictures", "texts" or "recordings", to choose among
    several.
    """
    if not folder.is_dir():
        raise MissingDataError(f"there is no folder {folder}; check the path.")
    if kind is not None:
        check_choice("kind", kind, KINDS)
    entries = [
        path
        for path in sorted(folder.glob("**/*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    by_kind = {
        name: [path for path in entries if path.suffix.lower() in raw.suffixes]
        for name, raw in KINDS.items()
        if kind in (None, name)
    }
    by_kind = {name: files for name, files in by_kind.items() if files}
    if len(by_kind) > 1:  # notices about the other files are no bags
        by_kind = {
            name: files
            for name, files in by_kind.items()
            if any(path.stem.lower() not in NOTICES for path in files)
        }
    if not by_kind:
        known = ", ".join(suffix for raw in KINDS.values() for suffix in raw.suffixes)
        raise DataError(
            f"{folder} holds no {kind or 'raw files'} ({known}); one per bag is needed."
        )
    if len(by_kind) > 1:
        raise DataError(f"{folder} holds {' and '.join(by_kind)}; say which with `kind` (--kind).")
    ((name, files),) = by_kind.items()
    direct = [path for path in files if path.parent == folder]
    n_below = len(files) - len(direct)
    if n_below > len(direct) > 0:
        raise DataError(
            f"{folder} holds {direct[0].name} beside {counted(n_below, name)} in folders below; "
            "move it into one of them, or elsewhere."
        )
    if direct and n_below:
        report(f"passed over {counted(n_below, name)} in folders below {folder}")
    return name, files_by_bag(direct or files, folder)


def read_record(folder: Path) -> EmbeddedFolder:
    """Return how a folder of features was made; refused where the record is missing or damaged.

    `folder`: written by `embed_folder`.
    """
    path = folder / RECORD
    if not path.is_file():
        raise MissingDataError(
            f"{folder} holds no {RECORD}; give a folder that `groupnoise embed` wrote."
        )
    record = read_json(path)
    try:
        cut = CutOptions(**record["cut"])
        made = EmbeddedFolder(**{**record, "cut": cut})
        state = cut.state
        is_sound = made.kind in KINDS and isinstance(made.source, str)
        if made.kind == "texts" and not made.encoder:
            is_sound &= len(state["words"]) == len(state["idf"]) > 0
    except (KeyError, TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise DataError(f"{path} is damaged; embed the files again.")
    return made


def _write(
    path: Path,
    embedded: Embedded,
    names: tuple[str, ...] | None,
    coordinate_names: tuple[str, ...],
) -> None:
    """Write the objects of one bag in a form that `read_bags` reads."""
    if path.suffix == ".npz":
        arrays: dict[str, Any] = {"features": embedded.features, "coords": embedded.coordinates}
        arrays["coords_names"] = np.array(coordinate_names)
        if names is not None:
            arrays["feature_names"] = np.array(names)
        np.savez(path, **arrays)
        return
    h5py = require("h5py", extra="h5")
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = embedded.features, embedded.coordinates
        file["coords"].attrs["names"] = list(coordinate_names)
        if names is not None:
            file["feature_names"] = list(names)
