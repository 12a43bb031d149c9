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
    bags = load_digit_bags(n_pictures, n_classes=3, random_state=seed)
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


def main(n_epochs: int = 40) -> float:
    with TemporaryDirectory() as place:
        truth = write_pictures(Path(place) / "pictures")
        commands = [
            f"embed pictures features --size {TILE}",
            f"fit features --setting mil -o model -p max_epochs={n_epochs}",
            "heatmap model features -o heatmap.html",
            "predict model features -o answers.csv",
        ]
        for command in commands:
            print(f"groupnoise {command}")
            words = [sys.executable, "-m", "groupnoise", *command.split()]
            subprocess.run(words, cwd=place, check=True)
        assert (Path(place) / "heatmap.html").is_file()
        with (Path(place) / "answers.csv").open(newline="") as stream:
            answers = list(csv.DictReader(stream))
    right = [
        int(answer["label"]) == digit
        for answer in answers
        if (digit := truth[answer["bag"], int(float(answer["x"])), int(float(answer["y"]))]) >= 0
    ]
    accuracy = float(np.mean(right))
    print(f"{accuracy:.1%} of {len(right)} digits that were never labelled are named rightly")
    return accuracy


if __name__ == "__main__":
    main()
