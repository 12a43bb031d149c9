"""Embeddings computed once and kept in a file, and labels of which a third are wrong."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from groupnoise import NoisyLabelClassifier
from groupnoise.candidates import flip_labels, load_digit_candidates


def embed(images: np.ndarray, path: Path) -> None:
    """Write the vectors of a network that is never trained here: the costly part, done once."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten()
    )
    with torch.inference_mode():
        np.save(path, network(torch.from_numpy(images[:, None])).numpy())


def main(n_epochs: int = 20) -> float:
    train = load_digit_candidates(n_distractors=0, part="train")
    test = load_digit_candidates(n_distractors=0, part="test")
    noisy = flip_labels(train.truth, 10, rate=0.33, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        for part, data in (("train", train), ("test", test)):
            embed(data.images, Path(folder, f"{part}.npy"))
        # Mapped, not loaded: a file may be larger than memory would like.
        vectors = {part: np.load(Path(folder, f"{part}.npy"), "r") for part in ("train", "test")}

        model = NoisyLabelClassifier(max_epochs=n_epochs, random_state=0)
        model.fit(vectors["train"], noisy)
        accuracy = model.score(vectors["test"], test.truth)
    print(f"accuracy on new digits: {accuracy:.3f}")

    issues = model.label_issues_
    wrong = noisy != train.truth
    print(f"labels called wrong: {issues.is_issue.sum()}, rightly: {wrong[issues.is_issue].sum()}")
    print(f"look at these rows first: {issues.ranked()[:5].tolist()}")
    return accuracy


if __name__ == "__main__":
    main()
