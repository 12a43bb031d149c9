"""Raw digit images in bags, a small CNN of one's own, and the objective as a plain loss."""

import numpy as np
import torch
from torch import nn

from groupnoise import GroupLoss, Groups
from groupnoise.bags import load_digit_bags
from groupnoise.core import batch_rows, collate
from groupnoise.io import single_label


def main(n_epochs: int = 12) -> float:
    train = load_digit_bags(300, correlated=False, part="train", random_state=0)
    test = load_digit_bags(200, correlated=False, part="test", random_state=1)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, len(train.class_names)),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    images = Groups(train.images[:, None], train.bags.offsets, single_label(train.labels))

    # The three lines: the loss, the logits of every object, the step.
    objective = GroupLoss(selection="marginal", weighting_strength=0.5)
    shuffler = np.random.default_rng(0)
    for _ in range(n_epochs):
        for rows in batch_rows(images.sizes, 32, shuffler):
            batch = collate(images, rows)
            logits = network(batch.objects.flatten(0, 1)).view(*batch.mask.shape, -1)
            loss = objective(logits, batch.targets, batch.mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    known = test.instance_labels >= 0
    with torch.no_grad():
        predicted = network(torch.from_numpy(test.images[known][:, None])).argmax(-1).numpy()
    accuracy = float((predicted == test.instance_labels[known]).mean())
    print(f"accuracy on single digits, learned from bags: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
