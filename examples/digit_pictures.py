"""From a folder of pictures to a heat map in three commands, on composites of digits."""

import csv
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from groupnoise.bags import load_digit_bags

TILE = 32
N_ACROSS = 4


def write_pictures(folder: Path, n_pictures: int = 120, seed: int = 0) -> dict:
    """Write PNG files with five to nine digits each and `labels.csv`; return where digits lie."""
    folder.mkdir(parents=True)
    bags = load_digit_bags(n_pictures, n_classes=3, correlated=False, random_state=seed)
    generator = np.random.default_rng(seed)
    truth = {}
    rows = []
    for number, label in enumerate(bags.labels.argmax(axis=1)):
        canvas = np.full((N_ACROSS * TILE, N_ACROSS * TILE), 255, dtype=np.uint8)
        begin, end = bags.bags.offsets[number : number + 2]
        cells = generator.choice(N_ACROSS**2, end - begin, replace=False)
        for digit, cell in zip(range(begin, end), cells, strict=True):
            x, y = TILE * int(cell % N_ACROSS), TILE * int(cell // N_ACROSS)
            ink = np.kron(bags.images[digit], np.ones((TILE // 8, TILE // 8)))
            canvas[y : y + TILE, x : x + TILE] = 255 - np.rint(255 * ink).astype(np.uint8)
            truth[f"picture_{number:03d}", x, y] = int(bags.instance_labels[digit])
        Image.fromarray(canvas).save(folder / f"picture_{number:03d}.png")
        rows.append((f"picture_{number:03d}", bags.class_names[label]))
    with (folder / "labels.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("picture", "label"), *rows])
    return truth


def main(n_epochs: int | None = None) -> float:
    # A plain fit decides by itself, which takes a while; a number of epochs is quicker and worse.
    quicker = "" if n_epochs is None else f" -p max_epochs={n_epochs}"
    with TemporaryDirectory() as place:
        truth = write_pictures(Path(place) / "pictures")
        commands = [
            f"embed pictures features --size {TILE}",
            f"fit features --setting mil -o model{quicker}",
            "heatmap model features -o heatmap.html",
            "predict model features --to csv -o answers",
        ]
        for command in commands:
            print(f"groupnoise {command}")
            words = [sys.executable, "-m", "groupnoise", *command.split()]
            subprocess.run(words, cwd=place, check=True)
        assert (Path(place) / "heatmap.html").is_file()
        with (Path(place) / "pictures/labels.csv").open(newline="") as stream:
            label_of = {row["picture"]: row["label"] for row in csv.DictReader(stream)}
        best = {}
        for bag, label in label_of.items():
            with (Path(place) / f"answers/{bag}.csv").open(newline="") as stream:
                tiles = list(csv.DictReader(stream))
            tile = max(tiles, key=lambda row, label=label: float(row[f"probability_{label}"]))
            best[bag] = truth[bag, int(tile["x"]), int(tile["y"])]
    accuracy = float(np.mean([str(digit) == label_of[bag] for bag, digit in best.items()]))
    print(f"in {accuracy:.0%} of the pictures the tile most like its label is a digit that has it")
    return accuracy


if __name__ == "__main__":
    main()
