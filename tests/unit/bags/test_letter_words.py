"""Words as bags of letters."""

import numpy as np
import pytest

from groupnoise.bags.digits import NONSENSE_TEXT, WALK_TEXT, draw_letter_words, words_of
from groupnoise.exceptions import DataError

POOL_LETTERS = np.tile(np.arange(26), 80)
POOL_FEATURES = np.column_stack([POOL_LETTERS, np.arange(len(POOL_LETTERS))]).astype(float)


def draw(words, seed=0):
    return draw_letter_words(words, POOL_FEATURES, POOL_LETTERS, random_state=seed)


def test_a_word_is_a_bag_labelled_with_its_letters():
    dataset = draw(["Noon", "AXE"])
    assert dataset.bags.sizes.tolist() == [4, 3]
    assert [np.flatnonzero(row).tolist() for row in dataset.labels] == [[13, 14], [0, 4, 23]]
    assert dataset.instance_labels.tolist() == [13, 14, 14, 13, 0, 23, 4]


def test_each_instance_is_the_letter_it_is_labelled_with():
    dataset = draw(["QUIZ", "JAZZ"])
    np.testing.assert_array_equal(dataset.bags.objects[:, 0], dataset.instance_labels)


def test_no_pool_row_is_used_twice():
    dataset = draw(["ANNA"] * 30)
    assert len(np.unique(dataset.bags.objects[:, 1])) == dataset.bags.n_objects


def test_more_letters_than_the_pool_holds_are_refused():
    with pytest.raises(DataError, match="use the letter Z 81 times, but the pool holds only 80"):
        draw(["Z" * 81])


@pytest.mark.parametrize("word", ["naïve", "it's", ""])
def test_words_with_anything_but_letters_are_refused(word):
    with pytest.raises(DataError, match="A to Z only"):
        draw([word])


def test_text_is_cut_at_anything_but_letters():
    assert words_of("Oh, it's 2 o'clock!") == ["OH", "IT", "S", "O", "CLOCK"]


@pytest.mark.parametrize("text", [NONSENSE_TEXT, WALK_TEXT])
def test_the_shipped_texts_use_all_letters(text):
    words = words_of(text)
    assert len(words) > 120
    assert len(set("".join(words))) == 26
