"""Texts with candidate topics through a module of one's own that returns a vector per text."""

import numpy as np
import torch
from torch import Tensor, nn

from groupnoise import MaxMatchingPartialLabelClassifier

TOPICS = {
    "billing": "invoice charged refund card payment twice receipt price plan amount",
    "delivery": "parcel late courier address tracking shipped box door arrived lost",
    "login": "password reset account locked email code sign browser link expired",
    "quality": "broken scratch colour size torn smell battery screen loose replace",
}
FILLER = "hello please i my the a it is was not help with since yesterday thanks again"
N_HASHES, N_WORDS = 512, 12


def write_texts(n_texts: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Write short messages: a few words of their topic among uninformative words."""
    generator = np.random.default_rng(seed)
    names = list(TOPICS)
    topics = generator.integers(len(names), size=n_texts)
    texts = []
    for topic in topics:
        telling = generator.choice(TOPICS[names[topic]].split(), 3, replace=False)
        words = [*telling, *generator.choice(FILLER.split(), 7)]
        texts.append(" ".join(generator.permutation(words)))
    return texts, np.array(names)[topics]


def token_ids(texts: list[str]) -> np.ndarray:
    """Turn texts into rows of word numbers, zero where a text is shorter."""
    rows = np.zeros((len(texts), N_WORDS))
    for row, text in zip(rows, texts, strict=True):
        words = text.split()[:N_WORDS]
        row[: len(words)] = [1 + sum(map(ord, word)) * len(word) % (N_HASHES - 1) for word in words]
    return rows


class TextEncoder(nn.Module):
    """The mean of word vectors; a pretrained language model would stand in its place."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(N_HASHES, dim, mode="mean", padding_idx=0)

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows of word numbers (n, n_words) to vectors (n, dim)."""
        return self.words(rows.long())  # estimators hand on float32; ids are exact in it


def main(n_epochs: int = 20) -> float:
    texts, topics = write_texts(400, seed=0)
    generator = np.random.default_rng(1)
    doubts = [{topic, str(generator.choice(list(TOPICS)))} for topic in topics]
    torch.manual_seed(0)
    model = MaxMatchingPartialLabelClassifier(
        encoder=TextEncoder(32),
        dim=32,
        scaling="none",  # word numbers must stay what they are
        class_weight="balanced",
        max_epochs=n_epochs,
        random_state=0,
    )
    model.fit(token_ids(texts), doubts)
    unseen, truth = write_texts(200, seed=2)
    accuracy = model.score(token_ids(unseen), truth)
    print(f"accuracy on new messages, learned from two topics each: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
