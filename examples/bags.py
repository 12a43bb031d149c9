"""Bags with labels in, labels of single instances out."""

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags import load_digit_bags
from groupnoise.io import single_label


def main(n_epochs: int = 20) -> float:
    train = load_digit_bags(300, correlated=False, part="train", random_state=0)
    test = load_digit_bags(200, correlated=False, part="test", random_state=1)
    model = MaxMatchingMILClassifier(max_epochs=n_epochs, random_state=0)
    model.fit(train.bags, single_label(train.labels))

    known = test.instance_labels >= 0
    accuracy = model.score(test.bags.objects[known], test.instance_labels[known])
    print(f"accuracy on single digits: {accuracy:.3f}")

    carried = model.select(test.bags, single_label(test.labels))
    print(f"bag 0 is a {single_label(test.labels)[0]} because of instance {carried.chosen[0]}")
    return accuracy


if __name__ == "__main__":
    main()
