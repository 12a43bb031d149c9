"""The invented catalogue of the simulated shop: departments, shelves and item titles."""

from __future__ import annotations

import numpy as np

from groupnoise._typing import IntArray

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
    """Return a distinct readable title for each item.

    Parameters
    ----------
    shelf_of_item : int64 ndarray of shape (n_items,)
        Index into `SHELF_NAMES` of each item.
    generator : numpy.random.Generator
        Decides which names are used.
    """
    titles = [""] * len(shelf_of_item)
    for shelf in np.unique(shelf_of_item):
        items = np.flatnonzero(shelf_of_item == shelf)
        names = [
            f"{maker} {kind} {noun}" for maker in MAKERS for kind in KINDS for noun in _NOUNS[shelf]
        ]
        order = generator.permutation(len(names))
        for place, item in enumerate(items):
            edition, name = divmod(place, len(names))
            suffix = f", edition {edition + 1}" if edition else ""
            titles[item] = names[order[name]] + suffix
    return titles
