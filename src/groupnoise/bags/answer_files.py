"""Answers about objects in one file per bag: .csv, .h5 or GeoJSON, with their coordinates."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.bags.object_answers import ObjectAnswers, spacing_of
from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_choice, require
from groupnoise.exceptions import DataError
from groupnoise.io.data_folder import new_data_folder

FORMS = ("csv", "h5", "geojson")


def write_answers(
    folder: Path, answers: ObjectAnswers, form: str, *, size: tuple[float, float] | None = None
) -> list[Path]:
    """Write one file per bag.

    `folder`: must not exist; it appears whole or not at all. `answers`: what a model said. `form`
    (one of "csv", "h5", "geojson"): `h5` holds `coords`, `probabilities`, `responsibilities` and
    `labels` of a bag; `geojson` a square per object with its class and measurements, as viewers of
    slides read it. `size`: how wide and high objects are in the units of their coordinates; by
    default as far as they are apart.
    """
    check_choice("form", form, FORMS)
    if form == "h5":
        require("h5py", extra="h5")
    if form == "geojson" and not answers.is_placed:
        raise DataError(
            "objects without coordinates in a plane cannot be written as GeoJSON; write csv or h5."
        )
    for bag in answers.bag_ids:
        if Path(bag).name != bag or bag in ("", ".", ".."):
            raise DataError(f"bag {bag!r} cannot be the name of a file; write one table instead.")
    write = {"csv": _write_csv, "h5": _write_h5, "geojson": _write_geojson}[form]
    with new_data_folder(folder) as building:
        for number, bag in enumerate(answers.bag_ids):
            write(building / f"{bag}.{form}", answers, number, size)
    return [folder / f"{bag}.{form}" for bag in answers.bag_ids]


def _write_csv(path: Path, answers: ObjectAnswers, bag: int, size: Any) -> None:
    part = answers.part(bag)
    places = answers.coordinate_names or ()
    header = ["row", *places, "label"]
    header += [f"probability_{name}" for name in answers.class_names]
    header.append("background")
    header += [f"responsibility_{name}" for name in answers.class_names]
    where: Any = np.zeros((part.stop - part.start, 0))
    if answers.coordinates is not None:
        where = answers.coordinates[part]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        for row, (place, best, probabilities, background, responsibilities) in enumerate(
            zip(
                where,
                answers.best[part],
                answers.probability[part],
                answers.background[part],
                answers.responsibility[part],
                strict=True,
            )
        ):
            label = answers.class_names[int(best)]
            figures = [f"{value:.6g}" for value in (*probabilities, background, *responsibilities)]
            writer.writerow([row, *(f"{value:g}" for value in place), label, *figures])


def _write_h5(path: Path, answers: ObjectAnswers, bag: int, size: Any) -> None:
    part = answers.part(bag)
    with require("h5py", extra="h5").File(path, "w") as file:
        if answers.coordinates is not None:
            file["coords"] = answers.coordinates[part]
            file["coords"].attrs["names"] = list(answers.coordinate_names or ())
        file["probabilities"] = answers.probability[part].astype(np.float32)
        file["background"] = answers.background[part].astype(np.float32)
        file["responsibilities"] = answers.responsibility[part].astype(np.float32)
        file["labels"] = [answers.class_names[int(best)] for best in answers.best[part]]
        file.attrs["classes"] = list(answers.class_names)
        file.attrs["predicted"] = answers.predicted[bag]


def _write_geojson(
    path: Path, answers: ObjectAnswers, bag: int, size: tuple[float, float] | None
) -> None:
    part = answers.part(bag)
    assert answers.coordinates is not None
    places: FloatArray = answers.coordinates[part]
    width, height = spacing_of(places) if size is None else size
    features = []
    for (x, y), best, probabilities, background, responsibilities in zip(
        places.tolist(),
        answers.best[part],
        answers.probability[part],
        answers.background[part],
        answers.responsibility[part],
        strict=True,
    ):
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
        measured = {
            f"{kind} {name}": round(float(value), 6)
            for kind, values in (
                ("probability", probabilities),
                ("responsibility", responsibilities),
            )
            for name, value in zip(answers.class_names, values, strict=True)
        }
        measured["probability background"] = round(float(background), 6)
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [corners]},
                "properties": {
                    "objectType": "tile",
                    "classification": {"name": answers.class_names[int(best)]},
                    "measurements": measured,
                },
            }
        )
    collection = {"type": "FeatureCollection", "features": features}
    path.write_text(json.dumps(collection), encoding="utf-8")
