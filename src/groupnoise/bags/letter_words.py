"""Words as bags of handwritten-like letters, after Letter-Carroll and Letter-Frost.

The originals take each word of a poem as a bag and draw each of its letters from the UCI Letter
Recognition pool (Briggs, Fern and Raich, KDD 2012). Their draws were never found, so words are
drawn anew, from two short texts of our own in the manner of those poems or from the caller's.
"""

from __future__ import annotations

import string
from collections.abc import Iterable

import numpy as np

from groupnoise.core.arrays import FloatArray, IntArray, RandomState, generator_from
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset

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
    name: str = "letter words",
    random_state: RandomState = None,
) -> BagDataset:
    """Spell words with letters drawn from a pool, each pool row used at most once.

    Result: multi-label bags: a bag is labelled with every letter its word has. Instance labels are
    known for all instances. `words`: one bag each; letters A to Z, in either case. `pool_features`
    (n_pool, n_features): the letters to draw from. `pool_letters`: which letter each is, 0 for A to
    25 for Z. `name`: what to call the set. `random_state`: decides the draw.
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
    bags = Groups(
        pool_features[rows], np.concatenate([[0], np.cumsum([len(word) for word in spelled])])
    )
    labels = np.zeros((len(bags), len(string.ascii_uppercase)), dtype=bool)
    labels[bags.group_of_object, letters] = True
    return BagDataset(
        name=name,
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
