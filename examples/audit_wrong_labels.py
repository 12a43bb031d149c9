"""Find bag labels that are wrong, look at them, and train again without them."""

from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import numpy as np

from groupnoise import MaxMatchingMILClassifier, find_group_issues
from groupnoise.audit import cleaned_copy, write_audit_page
from groupnoise.bags import load_digit_bags


def main(n_epochs: int = 40) -> float:
    bags = load_digit_bags(400, part="train", random_state=0)
    generator = np.random.default_rng(0)
    label = bags.labels.argmax(axis=1)
    is_wrong = generator.random(len(label)) < 0.1
    label[is_wrong] = (label[is_wrong] + generator.integers(1, 6, is_wrong.sum())) % 6
    bags = replace(bags, labels=label[:, None] == np.arange(6))

    # Instances that match no class get somewhere to go: the background.
    model = MaxMatchingMILClassifier(
        background=True, absent_strength=1.0, max_epochs=n_epochs, random_state=0
    )
    issues = find_group_issues(model, bags, n_folds=5, random_state=0)
    worst = issues.groups["source"][issues.ranked("no_credible_object", int(is_wrong.sum()))]
    precision = float(is_wrong[worst].mean())
    print(f"{is_wrong.sum()} labels were made wrong; of the worst as many, {precision:.0%} are")

    report = Path(gettempdir()) / "groupnoise_audit.html"
    write_audit_page(report, issues, bags)
    print(f"pictures of the worst bags: {report}")

    test = load_digit_bags(200, part="test", random_state=1)
    known = test.instance_labels >= 0
    for name, data in (("as it is", bags), ("cleaned", cleaned_copy(bags, issues))):
        model.fit(data.bags, data.labels.argmax(axis=1))
        accuracy = model.score(test.bags.objects[known], test.instance_labels[known])
        print(f"trained on the data {name}: accuracy on new digits {accuracy:.3f}")
    return precision


if __name__ == "__main__":
    main()
