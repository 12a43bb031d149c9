"""A simulated shop with an invented catalogue: drifting interests and stray clicks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groupnoise.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    RandomState,
    generator_from,
    offsets_from_sizes,
)
from groupnoise.core.checks import check_count, check_fraction
from groupnoise.core.groups import Groups
from groupnoise.io.datasets import ClickDataset

SHELVES: dict[str, dict[str, tuple[str, ...]]] = {
    "Kitchen": {
        "Tea and coffee": ("Teapot", "Kettle", "Coffee Grinder", "Milk Jug", "Espresso Cup"),
        "Baking": ("Loaf Tin", "Whisk", "Rolling Pin", "Cake Stand", "Flour Sieve"),
        "Knives": ("Paring Knife", "Bread Knife", "Chopping Board", "Whetstone", "Cleaver"),
        "Table": ("Dinner Plate", "Soup Bowl", "Linen Napkin", "Water Glass", "Salad Server"),
    },
    "Garden": {
        "Seeds": ("Bean Seeds", "Poppy Seeds", "Squash Seeds", "Herb Seeds", "Meadow Mix"),
        "Hand tools": ("Trowel", "Pruning Shears", "Dibber", "Hand Fork", "Grafting Knife"),
        "Pots": ("Terracotta Pot", "Window Box", "Hanging Basket", "Plant Saucer", "Trellis"),
        "Watering": ("Watering Can", "Garden Hose", "Rain Gauge", "Sprinkler", "Water Butt"),
    },
    "Outdoors": {
        "Camping": ("Two-Person Tent", "Sleeping Bag", "Camp Stove", "Ground Sheet", "Lantern"),
        "Cycling": ("Bell", "Saddle", "Pannier", "Tyre Pump", "Front Light"),
        "Climbing": ("Harness", "Chalk Bag", "Rope", "Carabiner", "Belay Device"),
        "Angling": ("Fly Rod", "Landing Net", "Reel", "Tackle Box", "Float Set"),
    },
    "Music": {
        "Guitar": ("Guitar Strings", "Capo", "Guitar Strap", "Plectrum", "Guitar Stand"),
        "Piano": ("Metronome", "Piano Stool", "Sheet Music", "Music Lamp", "Tuning Lever"),
        "Records": ("Jazz Record", "Folk Record", "Soul Record", "Record Brush", "Record Crate"),
        "Studio": ("Microphone", "Headphones", "Pop Shield", "Audio Cable", "Desk Speaker"),
    },
    "Paper": {
        "Notebooks": ("Pocket Notebook", "Diary", "Sketchbook", "Ledger", "Travel Journal"),
        "Pens": ("Fountain Pen", "Rollerball", "Ink Bottle", "Pencil Set", "Pen Case"),
        "Puzzles": ("Landscape Jigsaw", "Crossword Book", "Chess Set", "Card Game", "Dice Set"),
        "Novels": ("Sea Story", "Detective Story", "Ghost Story", "Family Saga", "Western"),
    },
    "Wardrobe": {
        "Rain": ("Umbrella", "Rain Jacket", "Rubber Boots", "Rain Hat", "Waxed Coat"),
        "Winter": ("Wool Scarf", "Mittens", "Bobble Hat", "Thermal Vest", "Snow Boots"),
        "Running": ("Running Shoes", "Running Shorts", "Sweatband", "Water Belt", "Trail Socks"),
        "Formal": ("Silk Tie", "Oxford Shirt", "Waistcoat", "Cuff Links", "Dress Shoes"),
    },
    "Nursery": {
        "Blocks": ("Letter Blocks", "Marble Run", "Stacking Rings", "Train Track", "Shape Sorter"),
        "Soft toys": ("Bear", "Rabbit", "Hedgehog", "Whale", "Fox"),
        "Bedtime": ("Night Light", "Cot Blanket", "Star Mobile", "Story Book", "Lullaby Box"),
        "Crafts": ("Finger Paints", "Modelling Clay", "Bead Kit", "Paper Kites", "Stamp Set"),
    },
    "Workshop": {
        "Woodwork": ("Block Plane", "Chisel", "Mitre Saw", "Wood Glue", "Marking Gauge"),
        "Electronics": ("Soldering Iron", "Multimeter", "Jumper Wires", "Breadboard", "Heat Gun"),
        "Painting": ("Paint Roller", "Masking Tape", "Dust Sheet", "Primer", "Angled Brush"),
        "Fixings": ("Wood Screws", "Wall Plugs", "Picture Hooks", "Hinges", "Washers"),
    },
}

MAKERS = (
    *("Alderbrook", "Birchmoor", "Cloverly", "Dunmere", "Elmstead", "Fernhollow", "Gorseby"),
    *("Hazelwick", "Ivydale", "Junipera", "Kestrelford", "Larkmoss", "Mallowby", "Nettlecombe"),
    *("Oakendale", "Pinefell", "Quillhaven", "Rowanmere", "Sedgewater", "Thistledon"),
)
KINDS = ("Classic", "Compact", "Folding", "Little", "Grand", "Everyday", "Heritage", "Striped")

SHELF_NAMES = [
    f"{department} / {shelf}" for department, shelves in SHELVES.items() for shelf in shelves
]
_NOUNS = [nouns for shelves in SHELVES.values() for nouns in shelves.values()]


def name_items(shelf_of_item: IntArray, generator: np.random.Generator) -> list[str]:
    """Return a distinct readable title for each item."""
    titles = [""] * len(shelf_of_item)
    for shelf in np.unique(shelf_of_item):
        items = np.flatnonzero(shelf_of_item == shelf)
        names = [
            f"{maker} {kind} {noun}" for maker in MAKERS for kind in KINDS for noun in _NOUNS[shelf]
        ]
        order = generator.permutation(len(names))
        for position, item in enumerate(items):
            edition, name = divmod(position, len(names))
            suffix = f", edition {edition + 1}" if edition else ""
            titles[item] = names[order[name]] + suffix
    return titles


N_INTERESTS = 2
"""Interests a user follows at a time, in turns: so the last click is often not the cause."""
DRIFT_RATE = 0.06
"""Chance, at each click, that one interest of the user gives way to another."""
SMALLEST_SHELF = 5
MEAN_DAYS = 2.0
"""Time between two clicks of a user, on average."""
POPULARITY_EXPONENT = 0.8
REACH = 0.15
"""Typical distance along a shelf (of length 1) from a click to the one that follows it."""


@dataclass(frozen=True)
class _Shop:
    """The catalogue and its click probabilities; items of a shelf are adjacent.

    `popularity`: probability of each item over the whole shop.
    `entry` (n_shelves, longest_shelf): cumulative probabilities of each position of a shelf to be
        where an interest begins.
    `following` (n_items, longest_shelf): cumulative probabilities of each position of the same
        shelf to be clicked after an item.
    """

    popularity: FloatArray
    shelf_of_item: IntArray
    shelf_starts: IntArray
    entry: FloatArray
    following: FloatArray

    @property
    def n_shelves(self) -> int:
        return len(self.shelf_starts) - 1


def make_shop(
    n_users: int = 2000,
    n_items: int = 400,
    *,
    stray_rate: float = 0.2,
    length: tuple[int, int] = (10, 30),
    random_state: RandomState = None,
) -> ClickDataset:
    """Simulate the click log of a shop whose every click has a known cause.

    A user follows two interests (shelves of the shop) in turns; each click lies near the user's
    last click of the same interest, and popular items are preferred. Now and then an interest
    drifts to another shelf. A stray click lands on a popular item of an unrelated shelf and
    nothing follows from it.

    Parameters
    ----------
    n_users : int, default=2000
        How many histories.
    n_items : int, default=400
        Size of the catalogue, at least 20.
    stray_rate : float, default=0.2
        Chance of each click to be stray.
    length : (int, int), default=(10, 30)
        Least and greatest number of clicks of a user.
    random_state : int, numpy generator or None, default=None
        Decides everything.

    Returns
    -------
    ClickDataset
        With titles, categories, timestamps in days and `is_stray`. `notes["follows"]` is an int64
        array of shape (n_clicks,): the position, in the same user's history, of the click each
        click follows from, -1 for stray clicks and for the first click of an interest.

    Examples
    --------
    >>> shop = make_shop(50, 100, stray_rate=0.2, random_state=0)
    >>> len(shop.histories), shop.n_items, len(shop.titles)
    (50, 100, 100)
    """
    check_count("n_users", n_users)
    check_count("n_items", n_items, least=4 * SMALLEST_SHELF)
    check_fraction("stray_rate", stray_rate)
    check_count("the least length", length[0])
    check_count("the greatest length", length[1], least=length[0])

    generator = generator_from(random_state)
    shop = _stock_shop(n_items, generator)
    lengths = generator.integers(length[0], length[1], endpoint=True, size=n_users)
    clicks, is_stray, follows = _simulate(shop, n_users, length[1], stray_rate, generator)
    kept = np.arange(length[1]) < lengths[:, None]
    titles = name_items(shop.shelf_of_item, generator)
    return ClickDataset(
        name="simulated shop",
        histories=Groups(clicks[kept], offsets_from_sizes(lengths)),
        item_ids=np.arange(n_items, dtype=np.int64),
        user_ids=np.arange(n_users, dtype=np.int64),
        titles=titles,
        categories=[SHELF_NAMES[shelf] for shelf in shop.shelf_of_item],
        is_stray=is_stray[kept],
        timestamps=_timestamps(kept, generator.spawn(1)[0])[kept],
        notes={"follows": follows[kept]},
    )


def _timestamps(kept: BoolArray, generator: np.random.Generator) -> FloatArray:
    """Return the day of each click: users arrive over a year and click every other day or so."""
    days: FloatArray = generator.exponential(MEAN_DAYS, kept.shape).cumsum(axis=1)
    return generator.uniform(0, 365, (len(kept), 1)) + days


def _stock_shop(n_items: int, generator: np.random.Generator) -> _Shop:
    """Put the items on shelves and compute the click probabilities."""
    n_shelves = min(len(SHELF_NAMES), n_items // SMALLEST_SHELF)
    shelf_starts = np.linspace(0, n_items, n_shelves + 1).astype(np.int64)
    sizes = np.diff(shelf_starts)
    shelf_of_item = np.repeat(np.arange(n_shelves, dtype=np.int64), sizes)
    popularity = (1.0 + generator.permutation(n_items)) ** -POPULARITY_EXPONENT
    popularity /= popularity.sum()

    positions = np.arange(sizes.max())
    exists = positions < sizes[:, None]  # (shelves, positions)
    item_at = np.where(exists, shelf_starts[:-1, None] + positions, 0)
    appeal = np.sqrt(popularity)[item_at] * exists  # the root keeps a shelf's tail alive
    position_of_item = np.arange(n_items) - shelf_starts[shelf_of_item]
    distance = np.abs(positions - position_of_item[:, None]) / sizes[shelf_of_item, None]
    nearness = np.exp(-distance / REACH) * (distance > 0)  # nobody clicks the same item again
    following = appeal[shelf_of_item] * nearness  # (items, positions)
    return _Shop(
        popularity,
        shelf_of_item,
        shelf_starts,
        _cumulative_shares(appeal),
        _cumulative_shares(following),
    )


def _simulate(
    shop: _Shop, n_users: int, n_steps: int, stray_rate: float, generator: np.random.Generator
) -> tuple[IntArray, BoolArray, IntArray]:
    """Return clicks, whether they are stray and what they follow, shape (n_users, n_steps) each."""
    users = np.arange(n_users)
    interests = _distinct_shelves(shop, n_users, generator)  # (users, N_INTERESTS)
    last_item = np.full((n_users, N_INTERESTS), -1)
    last_step = np.full((n_users, N_INTERESTS), -1)
    clicks = np.empty((n_users, n_steps), dtype=np.int64)
    follows = np.full((n_users, n_steps), -1, dtype=np.int64)
    is_stray = generator.random((n_users, n_steps)) < stray_rate

    for step in range(n_steps):
        drifting = users[generator.random(n_users) < DRIFT_RATE]
        slot = generator.integers(N_INTERESTS, size=len(drifting))
        interests[drifting, slot] = _other_shelf(shop, interests[drifting], generator)
        last_item[drifting, slot] = last_step[drifting, slot] = -1

        active = generator.integers(N_INTERESTS, size=n_users)
        cause = last_item[users, active]
        shelf = interests[users, active]
        cumulative = np.where(cause[:, None] >= 0, shop.following[cause], shop.entry[shelf])
        item = shop.shelf_starts[shelf] + _draw_position(cumulative, generator)

        stray = is_stray[:, step]
        item[stray] = _stray_items(shop, interests[stray], generator)
        clicks[:, step] = item
        follows[:, step] = np.where(stray, -1, last_step[users, active])
        followed = users[~stray]
        last_item[followed, active[followed]] = item[followed]
        last_step[followed, active[followed]] = step
    return clicks, is_stray, follows


def _distinct_shelves(shop: _Shop, n_users: int, generator: np.random.Generator) -> IntArray:
    keys = generator.random((n_users, shop.n_shelves))
    shelves: IntArray = np.argpartition(keys, N_INTERESTS, axis=1)
    return shelves[:, :N_INTERESTS]


def _other_shelf(shop: _Shop, taken: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw for each row a shelf that is not among `taken`."""
    keys = generator.random((len(taken), shop.n_shelves))
    np.put_along_axis(keys, taken, np.inf, axis=1)
    return keys.argmin(axis=1)


def _stray_items(shop: _Shop, interests: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw popular items, anew where one belongs to an interest of the user."""
    items = np.zeros(len(interests), dtype=np.int64)
    pending = np.arange(len(interests))
    while len(pending):
        items[pending] = generator.choice(
            len(shop.popularity), size=len(pending), p=shop.popularity
        )
        shelves = shop.shelf_of_item[items[pending]]
        pending = pending[(shelves[:, None] == interests[pending]).any(axis=1)]
    return items


def _cumulative_shares(weights: FloatArray) -> FloatArray:
    sums: FloatArray = np.cumsum(weights, axis=1)
    return sums / sums[:, -1:]


def _draw_position(cumulative: FloatArray, generator: np.random.Generator) -> IntArray:
    """Draw one column per row of cumulative probabilities."""
    threshold = generator.random((len(cumulative), 1))
    return (cumulative <= threshold).sum(axis=1)
