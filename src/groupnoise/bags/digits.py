"""Bags that ship or are drawn: scikit-learn's handwritten digits, and words of letters."""

from __future__ import annotations

import string
from collections.abc import Iterable

import numpy as np

from groupnoise.candidates.synthetic import N_DIGITS, PARTS, Part, digit_pool
from groupnoise.core.arrays import (
    FloatArray,
    IntArray,
    RandomState,
    generator_from,
    offsets_from_sizes,
)
from groupnoise.core.checks import check_choice, check_count, check_fraction
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import BagDataset

NEIGHBOURHOOD = 12
"""Background digits of a bag are drawn among this many nearest neighbours of one of them."""
NONSENSE_TEXT = """
The glimmock sat by the wazzly brook and hummed a quondle tune, while fizzwicks danced on a
jumbled hook beneath the vexing moon. Beware the snorvile, dear small one, its quivered beak,
its drowsy paw; it naps by day and hunts for fun and gnaws the thatch and spits the straw.
He took his brimble pole in hand and crossed the mirksome glade alone; six owls in velvet
watched him stand and quibble with a speckled stone. Then jinking through the frothy reeds the
snorvile galumped, blinked and yawned; it begged him for some poppy seeds and vanished as the
morning dawned. Oh clever pup, come home and rest, the kettle sings, the jam is thick; we
zigzagged east, we tumbled west, and nobody was ever quick.
"""
WALK_TEXT = """
I came at dusk upon a gate where two old lanes ran either side; one climbed the ridge, and it was
late, one followed brooks both quick and wide. I weighed them long, as people will who have no
map and need not hurry; the left was grazed and growing still, the right had leaves the wind
could worry. Just then a fox went up the hill, so up I went and closed the latch, and heard an
axe beyond the mill and saw blue smoke above some thatch. Years on I tell my friends it mattered,
that I was brave and others meek, yet both were equal, damp and scattered with acorns, all that
quiet week. What makes a choice is mostly weather, a zigzag hare, a jay in flight; the lanes, I
hear, join back together behind the church, just out of sight.
"""


def load_digit_bags(
    n_bags: int = 300,
    *,
    size: tuple[int, int] = (5, 9),
    n_classes: int = 6,
    witness_rate: float | None = None,
    correlated: bool = True,
    part: Part = "all",
    random_state: RandomState = None,
) -> BagDataset:
    """Draw bags of handwritten digits: some of the bag's class, the rest background.

    Digits below `n_classes` are the classes; the others only ever appear as background, which
    carries no class of its own.

    Parameters
    ----------
    n_bags : int, default=300
        How many bags; the classes share them evenly.
    size : (int, int), default=(5, 9)
        Least and greatest number of digits in a bag.
    n_classes : int, default=6
        The digits 0 to `n_classes - 1` label bags; at least one digit must remain.
    witness_rate : float, optional
        The share of a bag's digits that are of its class, never fewer than one digit.
        Exactly one if not given.
    correlated : bool, default=True
        Draw the background of a bag from the nearest neighbours of one background digit, so
        that the objects of a bag resemble each other as regions of one photograph do.
        False draws it evenly.
    part : {"all", "train", "validation", "test"}, default="all"
        Which digits to draw from. The three parts share no digit, whatever the random state:
        draw the bags of each part separately and nothing leaks.
    random_state : int, numpy generator or None, default=None
        Decides the draw.

    Returns
    -------
    BagDataset
        Features are the 64 grey values in [0, 1]; `instance_labels` is -1 for background.

    Examples
    --------
    >>> bags = load_digit_bags(12, part="train", random_state=0)
    >>> bags.labels.shape, bags.bags.objects.shape[1], bags.images.shape[1:]
    ((12, 6), 64, (8, 8))
    """
    _check_bag_parameters(n_bags, size, n_classes, witness_rate, part)
    generator = generator_from(random_state)
    pool = digit_pool(part)
    background = np.flatnonzero(pool.labels >= n_classes)
    neighbours = _nearest(pool.features[background], NEIGHBOURHOOD if correlated else None)
    members = [np.flatnonzero(pool.labels == label) for label in range(n_classes)]

    bag_classes = generator.permutation(np.arange(n_bags) % n_classes)
    bag_sizes = generator.integers(size[0], size[1], endpoint=True, size=n_bags)
    drawn: list[IntArray] = []
    for bag_class, bag_size in zip(bag_classes, bag_sizes, strict=True):
        n_witnesses = max(1, round((witness_rate or 0.0) * bag_size))
        witnesses = _draw(members[bag_class], n_witnesses, generator)
        near = background[neighbours[generator.integers(len(background))]]
        rest = _draw(near, bag_size - n_witnesses, generator)
        drawn.append(generator.permutation(np.concatenate([witnesses, rest])))

    bag = pool.subset(np.concatenate(drawn))
    return BagDataset(
        name="digit bags",
        bags=Groups(bag.features, offsets_from_sizes(bag_sizes)),
        labels=bag_classes[:, None] == np.arange(n_classes),
        class_names=[str(label) for label in range(n_classes)],
        instance_labels=np.where(bag.labels < n_classes, bag.labels, -1),
        images=bag.images,
    )


def _check_bag_parameters(
    n_bags: int, size: tuple[int, int], n_classes: int, witness_rate: float | None, part: str
) -> None:
    check_count("n_bags", n_bags)
    check_count("the least size", size[0])
    check_count("the greatest size", size[1], least=size[0])
    check_count("n_classes", n_classes)
    if n_classes >= N_DIGITS:
        raise ParameterError(
            f"n_classes must leave a digit for the background, so at most {N_DIGITS - 1}; "
            f"got {n_classes}."
        )
    if witness_rate is not None:
        check_fraction("witness_rate", witness_rate)
    check_choice("part", part, ("all", *PARTS))


def _draw(rows: IntArray, n_drawn: int, generator: np.random.Generator) -> IntArray:
    """Draw rows, each once unless more are asked for than there are."""
    return generator.choice(rows, n_drawn, replace=n_drawn > len(rows))


def _nearest(features: FloatArray, n_neighbours: int | None) -> IntArray:
    """Return for each row the rows nearest to it, itself first; all rows if no number is given."""
    from sklearn.metrics import pairwise_distances

    order: IntArray = np.argsort(pairwise_distances(features), axis=1, kind="stable")
    return order[:, :n_neighbours]


def words_of(text: str) -> list[str]:
    """Return all words of a text in order, in capitals; anything but A to Z separates words."""
    letters_only = "".join(
        letter if letter in string.ascii_uppercase else " " for letter in text.upper()
    )
    return letters_only.split()


def draw_letter_words(
    words: Iterable[str],
    pool_features: FloatArray,
    pool_letters: IntArray,
    *,
    random_state: RandomState = None,
) -> BagDataset:
    """Spell words with letters drawn from a pool, each pool row used at most once.

    Result: multi-label bags: a bag is labelled with every letter its word has. Instance labels are
    known for all instances. `words`: one bag each; letters A to Z, in either case. `pool_features`
    (n_pool, n_features): the letters to draw from. `pool_letters`: which letter each is, 0 for A to
    25 for Z. `random_state`: decides the draw.
    """
    spelled = [_letter_numbers(word) for word in words]
    if not spelled:
        raise DataError("0 words were given; at least one is needed.")
    generator = generator_from(random_state)
    letters = np.concatenate(spelled)
    rows = np.empty(len(letters), dtype=np.int64)
    for letter in np.unique(letters):
        places = np.flatnonzero(letters == letter)
        pool = np.flatnonzero(pool_letters == letter)
        if len(places) > len(pool):
            raise DataError(
                f"the words use the letter {string.ascii_uppercase[letter]} {len(places)} times, "
                f"but the pool holds only {len(pool)}; give fewer words."
            )
        rows[places] = generator.permutation(pool)[: len(places)]
    bags = Groups(pool_features[rows], offsets_from_sizes([len(word) for word in spelled]))
    labels = np.zeros((len(bags), len(string.ascii_uppercase)), dtype=bool)
    labels[bags.group_of_object, letters] = True
    return BagDataset(
        name="letter words",
        bags=bags,
        labels=labels,
        class_names=list(string.ascii_uppercase),
        instance_labels=letters,
    )


def _letter_numbers(word: str) -> IntArray:
    capitals = word.upper()
    if not capitals or any(letter not in string.ascii_uppercase for letter in capitals):
        raise DataError(f"a word may hold the letters A to Z only; got {word!r}.")
    return np.array([ord(letter) - ord("A") for letter in capitals], dtype=np.int64)
