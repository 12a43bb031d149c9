"""Usual names of columns, by the role of the column."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

# The usual names of each role, the most common first.
USUAL_NAMES = {
    "user": (
        "user", "user_id", "userid", "uid", "reviewerid", "reviewer_id", "customer_id",
        "customerid", "customer", "visitorid", "visitor_id", "session", "session_id", "sessionid",
    ),
    "item": (
        "item", "item_id", "itemid", "iid", "asin", "parent_asin", "product", "product_id",
        "productid", "movie", "movie_id", "movieid", "article_id", "sku", "items", "item_ids",
        "itemids", "item_list", "stockcode", "stock_code",
    ),
    "time": (
        "time", "timestamp", "unixreviewtime", "ts", "datetime", "date", "event_time",
        "created_at", "clicked_at", "viewed_at", "played_at", "ordered_at", "order_date",
        "orderdate", "purchase_date", "invoice_date", "invoicedate", "loan_date", "t_dat", "fecha",
        "fecha_hora", "fechahora", "datum", "zeit", "zeitpunkt", "zeitstempel", "bestelldatum",
        "kaufdatum", "ausleihdatum", "date_heure",
        "date_achat", "horodatage", "data_ora", "data_hora",
    ),
    "rating": (
        "rating", "overall", "score", "stars", "valoracion", "puntuacion", "calificacion",
        "estrellas", "bewertung", "sterne", "etoiles", "valutazione", "punteggio", "stelle",
    ),
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
        "ground_truth", "gold", "gold_label",
    ),
    "candidates": (
        "candidates", "candidate_labels", "candidate", "partial_target", "partial_labels",
        "partial_label", "labels",
    ),
    "propensity": (
        "propensity", "propensity_score", "pscore", "probability", "prob", "probabilidad",
        "probabilite", "probabilita", "wahrscheinlichkeit",
    ),
    "clicked": (
        "clicked", "click", "is_click", "is_clicked", "reward", "clic", "clique", "cliccato",
        "geklickt", "klick",
    ),
    "features": ("features", "feature", "x", "data", "embedding", "vector"),
}  # fmt: skip
SESSIONS = ("session", "session_id", "sessionid")
"""Users only if no column names persons."""
USER_WORDS = frozenset({
    "abonne", "abonnent", "account", "acheteur", "acquirente", "benutzer", "besucher", "borrower",
    "buyer", "client", "cliente", "clientes", "comprador", "consumer", "customer", "horer",
    "kaufer", "kunde", "kunden", "leser", "listener", "login", "member", "membre", "miembro",
    "mitglied", "nutzer", "person", "player", "profile", "reader", "shopper", "spieler",
    "subscriber", "user", "username", "user_name", "usuaria", "usuario", "usuarios", "utente",
    "utenti", "utilisateur", "viewer", "visitante", "visiteur", "visitor",
})  # fmt: skip
SESSION_WORDS = frozenset({"account", "client", "login", "player", "profile", "reader", "viewer"})
"""Persons, or devices of a session: `client` may be a kind of telephone."""
ITEM_WORDS = frozenset({
    "ad", "album", "anime", "app", "article", "articolo", "articulo", "artikel", "artigo",
    "artist", "book", "brano", "buch", "business", "cancion", "chanson", "content", "course",
    "doc", "document", "episode", "film", "game", "hotel", "isbn", "item", "job", "libro",
    "listing", "livre", "location", "medien", "news", "offer", "page", "pelicula", "place", "poi",
    "post", "prodotto", "product", "producto", "produit", "produkt", "produto", "recipe", "repo",
    "restaurant", "show", "song", "story", "track", "url", "venue", "video",
})  # fmt: skip
"""Words for particular kinds of items, in several languages."""
_ID_ENDING = re.compile(r"_?(id|no|nr|nummer|number|code|key|sku|codigo|codice|numero)$")
_ID_BEGINNING = re.compile(r"^(id|codigo|codice|code|cod|numero|num|nr|no)_?(de_|del_|du_|di_)?")
_OF_PEOPLE = f"({'|'.join(sorted(USER_WORDS))})"
_MAIL = re.compile(
    rf"({_OF_PEOPLE}_?)?((adresse|indirizzo|direccion)_?)?(de_|d_|di_)?(e_?)?(mail|correo|courriel)"
    rf"(_?(id|addr|address|adresse|electronico))?(_?(de_|del_|du_)?{_OF_PEOPLE})?"
)
"""E-mail addresses as user ids: `user_email`, `E-Mail-Adresse`, `correo`."""
_TYPE_ENDING = re.compile(r":(token|float)(_seq)?$")
"""Type suffixes of column names in RecBole files."""
COUNT_NAMES = frozenset({
    "weight", "count", "counts", "plays", "playcount", "play_count", "listens", "listen_count",
    "frequency", "quantity", "n_clicks", "num_plays", "views", "menge", "anzahl", "quantite",
    "cantidad", "quantita", "quantidade", "evento", "evenement", "accion", "azione",
    "event", "event_type", "action", "behavior", "behaviour", "ereignis",
    *USUAL_NAMES["clicked"],
})  # fmt: skip
"""Names of columns with counts or kinds of interactions; each row is one click all the same."""
_AMOUNT = re.compile(
    r"(^|_)(qty|price|amount|total|sum|cost|value|revenue|discount|duration|seconds|minutes|hours"
    r"|days|nights|weeks|months|pages|size|length|distance|km|kg|tage|wochen|monate|seiten"
    r"|dias|jours|giorni|percent|preis|betrag|summe|umsatz|dauer|sekunden|minuten|precio|importe|prix|montant|prezzo"
    r"|importo)(_|$)"
)
"""Names of columns with amounts, which are not ids."""
INDICATORS = ("candidate_", "candidate:", "cand_")
"""Prefixes of indicator columns of candidates."""
NAMED_PARTS = [part for part in USUAL_NAMES if part != "features"]
"""Roles of a single column."""
KNOWN_NAMES = frozenset(name for names in USUAL_NAMES.values() for name in names)


def plain_name(name: str) -> str:
    """Return the name of a column as usual names are spelt, without accents.

    >>> plain_name(" User ID"), plain_name("item_id:token"), plain_name("Bag-Label")
    ('user_id', 'item_id', 'bag_label')
    >>> plain_name("Artículo"), plain_name("Artikel-Nr.")
    ('articulo', 'artikel_nr')
    """
    plain = without_accents(_TYPE_ENDING.sub("", name.strip().lower()))
    return re.sub(r"[\s.-]+", "_", plain).removesuffix("_")


def without_accents(text: str) -> str:
    """Return text whose letters have no accents: `número` is `numero`."""
    apart = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def usual_column(part: str, columns: Sequence[str]) -> str | None:
    """Return the column with a usual name of a role, or None.

    `part`: a key of `USUAL_NAMES`. Of users and items also what they are called where all are of
    one kind, with or without the word for a number: `artistID`, `business_id`, `Kundennummer`.

    >>> usual_column("item", ["userID", "artistID", "weight"])
    'artistID'
    """
    by_name = {plain_name(name): name for name in columns[::-1]}
    usual = [name for name in USUAL_NAMES[part] if name in by_name]
    kinds = {"user": USER_WORDS, "item": ITEM_WORDS}.get(part, frozenset())
    of_kind = [plain for plain in reversed(by_name) if _without_id_word(plain) in kinds]
    if part == "user":
        sure = [name for name in of_kind if name not in SESSION_WORDS]
        mails = [plain for plain in reversed(by_name) if _MAIL.fullmatch(plain)]
        named = [name for name in usual if name not in SESSIONS]
        usual = [*named, *sure, *mails, *usual]
    return next((by_name[name] for name in (*usual, *of_kind)), None)


def _without_id_word(plain: str) -> str:
    """Return a name without a word for id before or after it.

    >>> [_without_id_word(name) for name in ("kundennummer", "id_cliente", "idcliente", "idea")]
    ['kunden', 'cliente', 'cliente', 'ea']
    """
    ended = _ID_ENDING.sub("", plain)
    return ended if ended in USER_WORDS or ended in ITEM_WORDS else _ID_BEGINNING.sub("", plain)


def is_id(name: str) -> bool:
    """Tell whether a name ends in the word for an id: `wine_id`, `wineID`, but not `paid`.

    >>> is_id("wine_id"), is_id("wineID"), is_id("paid"), is_id("id")
    (True, True, False, False)
    """
    return re.search(r"[a-z](ID|Id)$", name.strip()) is not None or plain_name(name).endswith("_id")


def is_amount(name: str) -> bool:
    """Tell whether a column is named as an amount or a count, so that its numbers are not ids.

    >>> is_amount("Quantity"), is_amount("unit_price"), is_amount("article_no")
    (True, True, False)
    """
    plain = plain_name(name)
    return plain in COUNT_NAMES or _AMOUNT.search(plain) is not None


def only_other_id(columns: Sequence[str], user: str, report: Callable[[str], None]) -> str | None:
    """Return the only id column besides the users, if none has a usual name of items."""
    others = [name for name in columns if name != user]
    if usual_column("item", others) is not None:
        return None
    found = [name for name in others if is_id(name) and usual_column("time", [name]) is None]
    if len(found) != 1:
        return None
    report(f"took column {found[0]!r} as the item: it is the only other one of ids")
    return found[0]
