import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.bags.baselines import MILRClassifier
from groupnoise.bags.search.decide import (
    NO_BACKGROUND,
    guess_negative,
    performance_warnings,
    size_leak_messages,
)
from groupnoise.bags.search.member_search import SEVERAL, choose_members
from groupnoise.bags.search.members import make_problem
from groupnoise.bags.search.portfolio import bag_options, facts_of_bags, n_effective_features
from groupnoise.exceptions import ParameterError


def nines(rate, n_bags, *, size=12, seed=0):
    """Bags of digits; positive ones hold nines, and each row says whether it is one."""
    generator = np.random.default_rng(seed)
    digits = load_digits()
    nine, others = (np.flatnonzero(each) for each in (digits.target == 9, digits.target != 9))
    rows, truth, labels = [], [], []
    for bag in range(n_bags):
        n_positive = max(1, round(rate * size)) if bag % 2 else 0
        drawn = np.concatenate(
            [generator.choice(nine, n_positive), generator.choice(others, size - n_positive)]
        )
        rows.append(digits.data[drawn] / 16.0)
        truth.append(np.arange(size) < n_positive)
        labels.append(bag % 2)
    bags = Groups(np.concatenate(rows), np.arange(n_bags + 1) * size)
    return bags, np.array(labels), np.concatenate(truth)


def words(n_bags, *, n_words=120, seed=0):
    """Bags of texts as word frequencies, most of them zero; positive ones hold one of a topic."""
    generator = np.random.default_rng(seed)
    topics = generator.dirichlet(np.full(n_words, 0.05), size=8)
    rows, truth, labels = [], [], []
    for bag in range(n_bags):
        topic = generator.integers(1, 8, size=20)
        if bag % 2:
            topic[generator.integers(20)] = 0
        counts = np.stack([generator.multinomial(15, topics[each]) for each in topic])
        rows.append(counts / np.linalg.norm(counts, axis=1, keepdims=True))
        truth.append(topic == 0)
        labels.append("positive" if bag % 2 else "negative")
    bags = Groups(np.concatenate(rows), np.arange(n_bags + 1) * 20)
    return bags, np.array(labels), np.concatenate(truth)


def scaled(bags):
    spread = bags.objects.std(axis=0) + 1e-9
    return Groups((bags.objects - bags.objects.mean(axis=0)) / spread, bags.offsets)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:held-out bags are predicted hardly better")
@pytest.mark.parametrize("rate", [0.08, 0.6])
def test_a_plain_fit_finds_the_positive_instances_at_any_witness_rate(rate):
    bags, labels, _ = nines(rate, 38)
    new, new_labels, truth = nines(rate, 38, seed=1)
    model = MaxMatchingMILClassifier(random_state=0).fit(bags, labels)
    found = roc_auc_score(truth, model.predict_proba(new.objects)[:, 1])
    milr = MILRClassifier(random_state=0).fit(scaled(bags), labels)
    theirs = roc_auc_score(truth, milr.predict_proba(scaled(new).objects)[:, 1])
    assert found > max(0.9, theirs - 0.02)
    assert np.mean(model.predict_bags(new) == new_labels) > 0.6
    assert model.negative_label_ == 0


@pytest.mark.slow
def test_a_plain_fit_is_right_on_sparse_texts(tmp_path):
    bags, labels, _ = words(38)
    new, new_labels, truth = words(38, seed=0)
    model = MaxMatchingMILClassifier(random_state=0).fit(bags, labels)
    assert roc_auc_score(truth, model.predict_proba(new.objects)[:, 1]) > 0.97
    assert np.mean(model.predict_bags(new) == new_labels) > 0.9
    proba = model.bag_proba(new)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    model.save(tmp_path / "model")
    again = MaxMatchingMILClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict_proba(new.objects), model.predict_proba(new.objects)
    )
    np.testing.assert_array_equal(again.bag_proba(new), proba)
    np.testing.assert_array_equal(again.predict_bags(new), model.predict_bags(new))
    assert again.negative_label_ == "negative"
    assert again.decisions_.summary() == model.decisions_.summary()
    selected = model.select(new, labels)
    assert np.mean(truth[new.offsets[1:-1:2] + selected.chosen[1::2]]) > 0.9
    repeated = MaxMatchingMILClassifier(ensemble=model.decisions_.members, random_state=0)
    np.testing.assert_allclose(
        repeated.fit(bags, labels).predict_proba(new.objects),
        model.predict_proba(new.objects),
        atol=0.01,
    )


def small(seed=0, n_bags=24):
    generator = np.random.default_rng(seed)
    labels = np.arange(n_bags) % 2
    rows = generator.normal(size=(n_bags, 4, 3))
    rows[labels == 1, 0, 0] += 4.0
    return rows, labels


def test_the_same_seed_decides_the_same():
    bags, labels = small()
    one, two = (MaxMatchingMILClassifier(random_state=3).fit(bags, labels) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(bags[0]), two.predict_proba(bags[0]))
    assert one.decisions_.taken == two.decisions_.taken


@pytest.mark.filterwarnings("ignore:held-out bags are predicted hardly better")
def test_explicit_values_are_respected():
    bags, labels = small()
    model = MaxMatchingMILClassifier(
        scaling="power", likelihood="max", encoder="identity", weight_decay=0.05, random_state=0
    ).fit(bags, labels)
    (_, parameters), *others = model.decisions_.members
    assert not others
    assert (parameters["scaling"], parameters["likelihood"]) == ("power", "max")
    assert parameters["weight_decay"] == 0.05


def test_parameters_of_the_training_loop_ask_for_it():
    bags, labels = small()
    model = MaxMatchingMILClassifier(max_epochs=2, random_state=0).fit(bags, labels)
    plain = MaxMatchingMILClassifier.fixed(max_epochs=2, random_state=0).fit(bags, labels)
    np.testing.assert_array_equal(model.predict_proba(bags[0]), plain.predict_proba(bags[0]))
    assert len(model.history_) == 2
    assert "max_epochs was given" in model.decisions_.reasons[0]
    with pytest.raises(ParameterError, match="leave one of the two out"):
        MaxMatchingMILClassifier(max_epochs=2, likelihood="noisy_or").fit(bags, labels)


@pytest.mark.parametrize(
    ("names", "negative"),
    [((0, 1), 0), ((-1, 1), -1), (("no", "yes"), "no"), (("case", "control"), "control")],
)
def test_negative_labels_are_recognised_by_name(names, negative):
    bags, labels = small()
    if names == ("case", "control"):
        labels = 1 - labels
    model = MaxMatchingMILClassifier(encoder="identity", likelihood="max", random_state=0)
    model.fit(bags, np.array(names)[labels])
    assert model.negative_label_ == negative
    assert any("recognised as the negative label" in each for each in model.decisions_.reasons)


def test_of_two_classes_without_telling_names_held_out_bags_tell_the_negative_one():
    bags, labels = small(n_bags=38)
    model = MaxMatchingMILClassifier(random_state=0).fit(bags, np.array(["owl", "fox"])[labels])
    assert model.negative_label_ == "owl"


def test_a_negative_label_that_is_not_there_is_refused():
    bags, labels = small()
    with pytest.raises(ParameterError, match="negative_label 'blue' is none of the labels"):
        MaxMatchingMILClassifier(negative_label="blue").fit(bags, labels)
    with pytest.raises(ParameterError, match="budget"):
        MaxMatchingMILClassifier(budget=0).fit(bags, labels)


def test_a_handful_of_bags_gets_the_stated_default_and_a_warning():
    bags, labels = small(n_bags=6)
    with pytest.warns(UserWarning, match="too few to hold any out"):
        model = MaxMatchingMILClassifier(random_state=0).fit(bags, labels)
    assert model.decisions_.trials == ()
    assert set(model.predict(bags[0])) <= {0, 1}


def test_a_class_of_a_single_bag_does_not_keep_the_others_from_being_compared():
    generator = np.random.default_rng(0)
    labels = np.array(["a", "b"] * 12 + ["c"])
    bags = [generator.normal(size=(3, 3)) + 3.0 * np.eye(3)["abc".index(each)] for each in labels]
    model = MaxMatchingMILClassifier(random_state=0, budget=0.1).fit(bags, labels)
    assert model.decisions_.trials
    assert set(model.predict_bags(bags[:2])) <= {"a", "b", "c"}


@pytest.mark.parametrize(("n_classes", "hidden"), [(1, 32), (5, 64), (13, 78), (30, 128)])
def test_networks_are_as_wide_as_the_classes_ask_for(n_classes, hidden):
    labels = np.arange(60)[:, None] % n_classes == np.arange(n_classes)
    problem = make_problem(Groups(np.zeros((60, 2)), np.arange(61)), labels, has_negative=True)
    options = bag_options(problem, {"fraction of zeros": 0.0, "bags": 60})
    wide = {each.parameters["hidden"] for each in options if each.parameters["encoder"] == "mlp"}
    assert wide == {hidden}


def test_of_two_classes_whose_bags_hold_nothing_else_none_is_negative():
    rows, digits = load_digits(return_X_y=True)
    generator = np.random.default_rng(1)
    of_digit = [np.flatnonzero(digits == digit) for digit in (5, 3)]
    drawn = [generator.choice(of_digit[bag % 2], 4, replace=False) for bag in range(40)]
    bags = Groups(rows[np.concatenate(drawn)], np.arange(0, 161, 4))
    labels = np.arange(40)[:, None] % 2 == np.arange(2)
    assert guess_negative(bags, labels, np.array(["five", "three"]), 0) == (None, ())


@pytest.mark.parametrize(("lead", "background"), [(0.05, True), (0.5, False)])
def test_instances_may_be_of_no_label_unless_bags_clearly_speak_against_it(lead, background):
    labels = np.eye(3, dtype=bool)[np.arange(60) % 3]
    problem = make_problem(Groups(np.zeros((60, 2)), np.arange(61)), labels, has_negative=False)
    options = bag_options(problem, {"fraction of zeros": 0.0, "bags": 60})
    noise = np.tile([-1.0, 1.0], 30)  # the standard error of a mean is .13
    scores = [np.zeros(60) if each.parameters["background"] else lead + noise for each in options]
    taken = choose_members(options, scores, SEVERAL)
    assert {option.parameters["background"] for option, _ in taken} == {background}


@pytest.mark.parametrize(
    ("gain", "said"), [(0.1, "no better than"), (0.3, "hardly better than"), (0.5, None)]
)
def test_a_gain_over_frequencies_that_may_be_luck_is_told(gain, said):
    # Of 26 bags the standard error of the mean is .2.
    told = performance_warnings(gain + np.tile([-1.0, 1.0], 13))
    assert [said in each for each in told] == ([True] if said else [])


def test_labels_that_instances_inherit_are_held_back_by_the_number_of_instances():
    labels = np.arange(60)[:, None] % 2 == 1
    problem = make_problem(Groups(np.zeros((60, 2)), np.arange(61)), labels, has_negative=True)
    options = bag_options(problem, {"fraction of zeros": 0.0, "bags": 60})
    decays = {
        kind: {each.parameters["weight_decay"] for each in options if each.name.startswith(kind)}
        for kind in ("noisy_or, identity", "inherited, identity")
    }
    assert decays["inherited, identity"] == {0.1 * each for each in decays["noisy_or, identity"]}


def test_categories_beside_numbers_are_cut_to_pieces_however_many_zeros_they_are():
    generator = np.random.default_rng(0)
    prices = generator.normal(4000.0, 1000.0, size=(240, 2))
    rows = np.hstack([prices, np.eye(8)[generator.integers(8, size=240)]])
    labels = (np.arange(60) % 2)[:, None] == np.arange(2)
    bags = Groups(rows, np.arange(0, 241, 4))
    facts = facts_of_bags(bags, labels, "no")
    assert facts["fraction of zeros"] > 0.5
    options = bag_options(make_problem(bags, labels[:, 1:], has_negative=True), facts)
    # One size for all features would leave nothing of the categories.
    assert {each.parameters["scaling"] for each in options} == {
        *("standard", "power", "pieces", "landmarks")
    }


@pytest.mark.slow
def test_regions_that_no_line_divides_are_told_without_being_asked_for():
    places = np.random.default_rng(0).uniform(-2.0, 2.0, size=(9000, 2))
    radius = np.hypot(*places.T)
    ring, others = places[(radius > 0.8) & (radius < 1.2)], places[abs(radius - 1.0) > 0.3]
    bags, labels, truth = [], [], []
    for bag in range(140):
        n = 2 * (bag % 2)
        bags.append(np.vstack([ring[bag * 2 : bag * 2 + n], others[bag * 12 : bag * 12 + 12 - n]]))
        labels.append(bag % 2)
        truth += [1] * n + [0] * (12 - n)
    model = MaxMatchingMILClassifier(random_state=0).fit(bags[:100], labels[:100])
    answers = model.predict_proba(bags[100:])[:, 1]
    assert roc_auc_score(truth[-len(answers) :], answers) > 0.9
    assert np.mean(model.predict_bags(bags[100:]) == labels[100:]) > 0.9


def test_that_no_background_was_taken_is_said():
    generator = np.random.default_rng(0)
    labels = ["a", "b", "c"] * 8
    bags = [generator.normal(size=(3, 3)) + 3.0 * np.eye(3)["abc".index(each)] for each in labels]
    model = MaxMatchingMILClassifier(random_state=0, background=False, budget=0.1)
    assert NO_BACKGROUND not in " ".join(model.fit(bags, labels).decisions_.reasons)
    found = MaxMatchingMILClassifier(random_state=0, budget=0.1).fit(bags, labels).decisions_
    free = any("background" in name for name, _ in found.taken)
    assert (NO_BACKGROUND in " ".join(found.reasons)) != free


def test_prices_beside_many_categories_are_not_divided_by_one_number():
    generator = np.random.default_rng(0)
    prices = generator.normal(4000.0, 1000.0, size=(240, 1))
    words = np.eye(50)[generator.integers(50, size=240)]
    labels = (np.arange(60) % 2)[:, None] == np.arange(2)
    for rows, first in ((np.hstack([prices, words]), "standard"), (words, "rms")):
        squares = [sum(row[c] ** 2 for row in rows) for c in range(rows.shape[1])]
        expected = sum(squares) ** 2 / sum(each**2 for each in squares)
        assert n_effective_features(rows) == pytest.approx(expected)
        bags = Groups(rows, np.arange(0, 241, 4))
        facts = facts_of_bags(bags, labels, "no")
        assert ("feature scales" in facts) == (first == "standard")
        options = bag_options(make_problem(bags, labels[:, 1:], has_negative=True), facts)
        scalings = [o.parameters["scaling"] for o in options if o.parameters["encoder"] == "mlp"]
        assert scalings[0] == first


def test_noise_is_called_noise():
    generator = np.random.default_rng(0)
    bags, labels = generator.normal(size=(40, 3, 2)), np.arange(40) % 2
    with pytest.warns(UserWarning, match="no better than by the frequencies"):
        MaxMatchingMILClassifier(random_state=0).fit(bags, labels)


@pytest.mark.slow
def test_bags_with_several_labels_and_background_are_decided_too():
    generator = np.random.default_rng(0)
    centres = 4.0 * np.eye(4)
    sets = [sorted(generator.choice(3, size=1 + bag % 2, replace=False)) for bag in range(38)]
    bags, truth = [], []
    for labels in sets:
        kinds = [*labels, 3, 3, 3]
        bags.append(centres[kinds] + 0.5 * generator.normal(size=(len(kinds), 4)))
        truth += kinds
    seen = []
    model = MaxMatchingMILClassifier(random_state=0, on_epoch=seen.append).fit(bags, sets)
    rows = np.concatenate(bags)
    known = np.array(truth) < 3
    assert np.mean(model.predict(rows[known]) == np.array(truth)[known]) > 0.95
    assert model.background_proba(rows[~known]).mean() > 0.8
    members = [parameters for _, parameters in model.decisions_.members]
    # Kernels of whole bags name no instance, so that they have no background.
    named = [each["background"] for each in members if each["likelihood"] != "statistics"]
    assert named
    assert all(named)
    assert seen[-1]["epoch"] == len(seen)


def test_labels_that_the_sizes_of_bags_tell_are_told_of():
    label = np.arange(40) % 2
    labels = label[:, None] == np.arange(2)
    sizes = np.random.default_rng(0).integers(4, 10, size=40)
    names = np.array(["sound", "cracked"])
    assert size_leak_messages(sizes, labels, names) == []
    (said,) = size_leak_messages(sizes + 6 * label, labels, names)
    assert said.startswith("How many instances a bag has tells whether it is sound (AUROC 1.00")
    assert len(size_leak_messages(sizes - 6 * label + 6, labels, names)) == 1
    # Three bags of a kind may be the largest by chance.
    assert (
        size_leak_messages(sizes + 9 * (np.arange(40) < 3), np.c_[np.arange(40) < 3], names[:1])
        == []
    )
