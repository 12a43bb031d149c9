"""What columns are called: the names people give to users, items, bags, labels and the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence

# For each part the names people use, the likeliest first.
USUAL_NAMES = {
    "user": (
        "user", "user_id", "userid", "uid", "reviewerid", "reviewer_id", "customer_id",
        "customerid", "customer", "visitorid", "visitor_id", "session", "session_id", "sessionid",
    ),
    "item": (
        "item", "item_id", "itemid", "iid", "asin", "parent_asin", "product", "product_id",
        "productid", "movie", "movie_id", "movieid", "article_id", "sku", "items", "item_ids",
        "itemids", "item_list",
    ),
    "time": (
        "time", "timestamp", "unixreviewtime", "ts", "datetime", "date", "event_time",
        "created_at", "clicked_at", "viewed_at", "t_dat",
    ),
    "rating": ("rating", "overall", "score", "stars"),
    "title": (
        "title", "name", "item_name", "product_name", "movie_title", "item_title", "titel",
        "bezeichnung", "artikelname", "produktname", "titre", "titolo", "titulo",
    ),
    "category": (
        "category", "categories", "genre", "genres", "main_category", "category_name",
        "department", "kategorie", "kategorien", "warengruppe", "categorie", "categoria",
    ),
    "group": (
        "bag", "bag_id", "bagid", "bags", "group", "group_id", "groupid", "groups", "image_id",
        "molecule_name", "molecule", "molecule_id", "slide", "slide_id", "recording_id",
    ),
    "label": (
        "bag_label", "label", "bag_labels", "labels", "class", "target", "y", "class_label",
        "diagnosis", "klasse",
    ),
    "patient": (
        "patient", "patient_id", "patientid", "case", "case_id", "case_submitter_id", "subject",
        "subject_id", "participant_id", "donor_id",
    ),
    "split": ("split", "subset", "partition", "set"),
    "truth": (
        "truth", "instance_label", "instance_labels", "instance_truth", "true_label", "target",
        "ground_truth",
    ),
    "candidates": (
        "candidates", "candidate_labels", "candidate", "partial_target", "partial_labels",
        "partial_label", "labels",
    ),
    "propensity": ("propensity", "propensity_score", "pscore", "probability", "prob"),
    "clicked": ("clicked", "click", "is_click", "is_clicked", "reward"),
    "features": ("features", "feature", "x", "data", "embedding", "vector"),
}  # fmt: skip
PEOPLE = frozenset({
    "account", "benutzer", "buyer", "client", "cliente", "consumer", "kunde", "kunden",
    "listener", "login", "member", "nutzer", "person", "player", "profile", "reader", "shopper",
    "subscriber", "username", "user_name", "usuario", "utente", "utilisateur", "viewer",
    "visitor",
})  # fmt: skip
THINGS = frozenset({
    "ad", "album", "anime", "app", "article", "artikel", "artist", "book", "business", "content",
    "course", "doc", "document", "film", "game", "hotel", "isbn", "job", "listing", "location",
    "news", "offer", "page", "place", "poi", "post", "produit", "produkt", "prodotto", "producto",
    "recipe", "repo", "restaurant", "show", "song", "story", "track", "url", "venue", "video",
})  # fmt: skip
"""What users and items are called where they are of one kind, in the languages of some shops."""
_ID_ENDING = re.compile(r"_?(id|nr|nummer|number|code|key)$")
_TYPE_ENDING = re.compile(r":(token|float)(_seq)?$")
"""What files of RecBole add to the names of columns."""
HOW_OFTEN = frozenset({
    "weight", "count", "counts", "plays", "playcount", "play_count", "listens", "listen_count",
    "frequency", "quantity", "n_clicks", "num_plays", "views", "menge", "anzahl", "quantite",
    "event", "event_type", "action", "behavior", "behaviour", "ereignis",
    *USUAL_NAMES["clicked"],
})  # fmt: skip
"""What columns are called that say how often a user chose an item, or whether, or how; a row is one
click all the same."""
INDICATORS = ("candidate_", "candidate:", "cand_")
"""How columns of 0 and 1, one for each candidate, begin."""
NAMED_PARTS = [part for part in USUAL_NAMES if part != "features"]
"""Parts that one column plays."""
KNOWN_NAMES = frozenset(name for names in USUAL_NAMES.values() for name in names)


def plain_name(name: str) -> str:
    """Return the name of a column as usual names are spelt.

    >>> plain_name(" User ID"), plain_name("item_id:token"), plain_name("Bag-Label")
    ('user_id', 'item_id', 'bag_label')
    """
    return re.sub(r"[\s.-]+", "_", _TYPE_ENDING.sub("", name.strip().lower()))


def usual_column(part: str, columns: Sequence[str]) -> str | None:
    """Return the column whose name says that it plays a part, or None.

    `part`: a key of `USUAL_NAMES`. Of users and items also what they are called where all are of
    one kind, with or without the word for a number: `artistID`, `business_id`, `Kundennummer`.

    >>> usual_column("item", ["userID", "artistID", "weight"])
    'artistID'
    """
    by_name = {plain_name(name): name for name in reversed(columns)}
    for name in USUAL_NAMES[part]:
        if name in by_name:
            return by_name[name]
    kinds = {"user": PEOPLE, "item": THINGS}.get(part, frozenset())
    of_kind = [name for plain, name in by_name.items() if _ID_ENDING.sub("", plain) in kinds]
    return of_kind[-1] if of_kind else None  # the first of them in the table


def is_id(name: str) -> bool:
    """Tell whether a name ends in the word for an id: `wine_id`, `wineID`, but not `paid`.

    >>> is_id("wine_id"), is_id("wineID"), is_id("paid"), is_id("id")
    (True, True, False, False)
    """
    return re.search(r"[a-z](ID|Id)$", name.strip()) is not None or plain_name(name).endswith("_id")
