"""Candidate labels in, one label out; the doubtful rows first."""

import numpy as np

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.candidates import load_digit_candidates


def main(n_epochs: int = 20) -> float:
    train = load_digit_candidates(part="train", random_state=0)
    test = load_digit_candidates(part="test", random_state=1)
    model = MaxMatchingPartialLabelClassifier(max_epochs=n_epochs, random_state=0)
    model.fit(train.features, train.candidates)
    accuracy = model.score(test.features, test.truth)
    print(f"accuracy on new digits: {accuracy:.3f}")

    resolved = model.disambiguate(train.features, train.candidates)
    print(f"training rows resolved rightly: {np.mean(resolved == train.truth):.3f}")
    doubt = np.sort(model.predict_proba(train.features), axis=1)[:, -2:]
    order = np.argsort(doubt[:, 1] - doubt[:, 0])
    print(f"look at these rows first: {order[:5].tolist()}")
    return accuracy


if __name__ == "__main__":
    main()
