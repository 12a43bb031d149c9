"""Raw digit images in bags through a CNN of one's own: trained from scratch, frozen, fine-tuned.

The network goes into the estimator as it is; the estimator copies it, so the same network can be
tried in several ways.
"""

import torch
from torch import nn

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.core import FrozenEncoder
from groupnoise.io import single_label

WIDTH = 64


def make_cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),  # estimators take one flat row per image
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, WIDTH),
    )


def pretrain(cnn: nn.Module, n_epochs: int) -> nn.Module:
    """Teach the network digits 6 to 9, which no bag is ever labelled with."""
    digits = load_digit_candidates(n_distractors=0, part="validation")
    kept = digits.truth >= 6
    images = torch.from_numpy(digits.features[kept])
    truth = torch.from_numpy(digits.truth[kept] - 6)
    network = nn.Sequential(cnn, nn.ReLU(), nn.Linear(WIDTH, 4))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(5 * n_epochs):
        loss = nn.functional.cross_entropy(network(images), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return cnn


def main(n_epochs: int = 12) -> float:
    train = load_digit_bags(300, correlated=False, part="train", random_state=0)
    test = load_digit_bags(200, correlated=False, part="test", random_state=1)
    known = test.instance_labels >= 0
    pretrained = pretrain(make_cnn(), n_epochs)
    encoders = {
        "from scratch": make_cnn(),
        "frozen": nn.Sequential(FrozenEncoder(pretrained), nn.ReLU(), nn.Linear(WIDTH, WIDTH)),
        "fine-tuned": pretrained,
    }
    accuracy = {}
    for name, encoder in encoders.items():
        model = MaxMatchingMILClassifier(
            encoder=encoder,
            dim=WIDTH,
            scaling="none",  # grey values in [0, 1], as the network expects them
            class_weight="balanced",
            mixed_precision=True,  # bfloat16 where the processor has it, float32 elsewhere
            max_epochs=n_epochs,
            learning_rate=3e-3,
            random_state=0,
        )
        model.fit(train.bags, single_label(train.labels))
        accuracy[name] = model.score(test.bags.objects[known], test.instance_labels[known])
        print(f"{name}: accuracy on single digits, learned from bags: {accuracy[name]:.3f}")
    return accuracy["from scratch"]


if __name__ == "__main__":
    main()
