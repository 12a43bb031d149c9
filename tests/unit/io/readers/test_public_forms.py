"""Click logs as public sets write them: any suffix or none, `::`, no header, ids of any kind."""

import numpy as np
import pytest

from groupnoise.clicks import read_clicks
from groupnoise.clicks.reading.streaming import convert_clicks
from groupnoise.exceptions import DataError
from groupnoise.io.columns.names import usual_column
from groupnoise.io.columns.setting_guess import guess_setting, settings_by_columns
from groupnoise.io.tables.table import read_table

CLICKS = [
    (7, 31, 5, 978300760),
    (7, 30, 3, 978300700),
    (8, 31, 4, 978300900),
    (8, 32, 1, 978301000),
]
"""User, item, rating and time; the first two are not in the order of time."""


def lines(mark, header=None):
    rows = [mark.join(map(str, row)) for row in CLICKS]
    return "\n".join([*([header] if header else []), *rows, ""])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ratings.dat", lines("::")),
        ("u.data", lines("\t")),
        ("u.txt", lines("\t")),
        ("u_blanks.txt", lines(" ")),
        ("named.txt", lines(" ", "user item rating timestamp")),
        ("bars", lines("|")),
        ("ratings.csv", lines(",")),
        ("shop.inter", lines("\t", "user_id:token\titem_id:token\trating:float\ttimestamp:float")),
        ("artists.dat", lines("\t", "userID\tartistID\trating\ttimestamp")),
        ("reviews.csv", lines(",", "User ID,business_id,stars,date")),
        ("wines.csv", lines(";", "Kundennummer;wine_id;rating;timestamp")),
    ],
)
def test_logs_of_public_sets_are_read_without_a_word(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert guess_setting(str(path))[0] == "rs"
    for found in (read_clicks(path), convert_clicks(path, tmp_path / "out")):
        assert found.user_ids.tolist() == [7, 8]
        clicked = [found.item_ids[history].tolist() for history in found.histories]
        assert clicked == [[30, 31], [31, 32]]


def test_dates_in_the_last_column_without_a_name(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("u1,b1,5,2019-03-02\nu1,b2,4,2019-01-02\nu2,b1,3,2019-01-03\n")
    assert guess_setting(str(path))[0] == "rs"
    found = read_clicks(path)
    assert found.item_ids[found.histories[0]].tolist() == ["b2", "b1"]


@pytest.mark.parametrize(
    "content",
    [
        "1,2,3,4\n1,2,3,5\n",  # the last column holds no times
        "0.5,1,2\n0.5,2,2\n",  # numbers, no ids
        "a,b,c\n",  # names of columns
        "1,2,3,4,5\n1,2,3,4,5\n",  # too many
        "1,2\n3,4\n",  # nobody comes back
    ],
)
def test_numbers_without_names_are_not_taken_for_clicks(tmp_path, content):
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(DataError, match="do not tell what it holds"):
        guess_setting(str(path))


def test_lists_of_equal_length_stay_histories(tmp_path):
    path = tmp_path / "histories.txt"
    path.write_text("u1 a b c\nu2 b c d\n")
    assert [len(history) for history in read_clicks(path).histories] == [3, 3]


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        (["member_id", "trackId", "played_at"], ["rs"]),
        (["user_id", "wineID", "when"], ["rs"]),
        (["user_id", "wine_id", "shop_id"], []),  # either may be the item
        (["user_id", "paid"], []),
        (["client", "url", "candidates", "x"], ["pll"]),
        (["customer_id", "bag", "label", "x"], ["mil"]),
    ],
)
def test_what_users_and_items_are_called(columns, settings):
    assert settings_by_columns(columns) == settings


def test_a_usual_name_goes_before_a_kind_and_the_first_of_its_kind_before_others():
    assert usual_column("item", ["track_id", "item_id"]) == "item_id"
    assert usual_column("item", ["track_id", "artist_id"]) == "track_id"


def test_the_only_other_column_of_ids_is_the_item_and_said_so(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user_id,wineID,price\n1,4,2.5\n1,5,2.5\n")
    said = []
    found = read_clicks(path, report=said.append)
    assert found.item_ids.tolist() == [4, 5]
    assert "took column 'wineID' as the item: it is the only other one of ids" in said


@pytest.mark.parametrize("mark", ["\t", ","])
def test_inches_are_no_quotation_marks(tmp_path, mark):
    rows = [f'{number}{mark}tube {number % 9}" wide{mark}{number}' for number in range(4000)]
    path = tmp_path / "items.txt"
    path.write_text("\n".join([mark.join(["item", "title", "price"]), *rows, ""]))
    found = read_table(path)
    assert len(found) == 4000
    assert found.frame["title"][3999] == 'tube 3" wide'
    assert found.locate(3999).endswith("line 4001")


def test_a_mark_that_opens_a_cell_between_tabs_and_does_not_close_it(tmp_path):
    path = tmp_path / "items.tsv"
    path.write_text('item\ttitle\n1\t"Best" of all\n2\t"quoted"\n')
    assert read_table(path).frame["title"].to_list() == ['"Best" of all', '"quoted"']
    path.write_text('item\ttitle\n1\t"two\nlines"\n2\t"quoted"\n')
    assert read_table(path).frame["title"].to_list() == ["two\nlines", "quoted"]


@pytest.mark.parametrize(
    ("arrays", "setting"),
    [
        ({"X": np.zeros((3, 2)), "bag": [0, 0, 1], "bag_label": [0, 1]}, "mil"),
        ({"data": np.zeros((3, 2)), "partial_target": np.ones((3, 2))}, "pll"),
    ],
)
def test_arrays_are_known_by_their_names(tmp_path, arrays, setting):
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    assert guess_setting(str(path))[0] == setting


def test_arrays_that_tell_nothing_are_listed(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3), b=np.zeros(3))
    with pytest.raises(DataError, match="holds the arrays a, b, which do not tell what they are"):
        guess_setting(str(tmp_path / "arrays.npz"))


@pytest.mark.parametrize(
    "content",
    [
        'session,items\n1,"[3, 4, 5]"\n2,"[4, 5, 6]"\n',
        "session,items\n1,\"['3', '4', '5']\"\n2,\"['4', '5', '6']\"\n",
        "session,items\n1,3 4 5\n2,4 5 6\n",
        "session;items\n1;3|4|5\n2;4|5|6\n",
    ],
)
def test_lists_in_cells_of_text(tmp_path, content):
    path = tmp_path / "sessions.csv"
    path.write_text(content)
    for found in (read_clicks(path), convert_clicks(path, tmp_path / "out")):
        assert [found.item_ids[history].tolist() for history in found.histories] == [
            [3, 4, 5],
            [4, 5, 6],
        ]


def test_items_of_several_words_stay_items(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\n1,Star Wars\n1,The Matrix\n2,Star Wars\n")
    assert read_clicks(path).item_ids.tolist() == ["Star Wars", "The Matrix"]


SESSIONS = [
    (1, "2014-04-07T10:54:09.868Z", 214536500, "0"),
    (1, "2014-04-07T10:51:09.277Z", 214536502, "S"),
    (2, "2014-04-07T13:56:37.614Z", 214662742, "0"),
    (2, "2014-04-07T13:57:19.373Z", 214536502, "7"),
]
"""Session, time, item and category, as YooChoose has them."""


@pytest.mark.parametrize("n_columns", [3, 4])
def test_times_may_stand_second_in_rows_without_names(tmp_path, n_columns):
    path = tmp_path / "yoochoose-clicks.dat"
    rows = [",".join(map(str, row[:n_columns])) for row in SESSIONS]
    path.write_text("\n".join(rows) + "\n")
    said = []
    assert guess_setting(str(path))[0] == "rs"
    for found in (read_clicks(path, report=said.append), convert_clicks(path, tmp_path / "out")):
        clicked = [found.item_ids[history].tolist() for history in found.histories]
        assert clicked == [[214536502, 214536500], [214662742, 214536502]]
    assert any("column_2 is the time, column_3 is the item" in each for each in said)
    assert any("column_4 is left out" in each for each in said) == (n_columns == 4)


@pytest.mark.parametrize("mark", [",", " "])
def test_sessions_with_their_items_in_a_cell(tmp_path, mark):
    path = tmp_path / "sessions.csv"
    cells = [mark.join(each) for each in (("a", "b", "c"), ("b", "a"))]
    path.write_text(f'SessionId,ItemIds\ns1,"{cells[0]}"\ns2,"{cells[1]}"\n')
    assert guess_setting(str(path))[0] == "rs"
    found = read_clicks(path)
    clicked = [found.item_ids[history].tolist() for history in found.histories]
    assert clicked == [["a", "b", "c"], ["b", "a"]]


def test_how_often_an_artist_was_heard_is_said_to_be_left_out(tmp_path):
    path = tmp_path / "user_artists.dat"
    path.write_text("userID\tartistID\tweight\n2\t51\t13883\n2\t52\t11690\n3\t51\t2\n")
    said = []
    assert read_clicks(path, report=said.append).histories.n_objects == 3
    assert any("left out column 'weight': every row counts as one click" in each for each in said)
    said.clear()
    read_clicks(path, rating="weight", min_rating=10, report=said.append)
    assert not any("left out" in each for each in said)


def test_histories_of_several_lengths_are_seen_or_told_of(tmp_path):
    text = "u1\ta\tb\tc\nu2\ta\tb\nu3\ta\tb\tc\td\n"
    for name in ("log.txt", "log.dat", "log"):
        (tmp_path / name).write_text(text.replace("\t", " ") if name == "log" else text)
        assert guess_setting(str(tmp_path / name))[0] == "rs"
        assert read_clicks(tmp_path / name).histories.sizes.tolist() == [3, 2, 4]
    (tmp_path / "log.tsv").write_text(text)
    with pytest.raises(DataError, match=r"if each line is a user and .*--setting rs --format text"):
        read_clicks(tmp_path / "log.tsv")
    assert read_clicks(tmp_path / "log.tsv", format="text").histories.sizes.tolist() == [3, 2, 4]


@pytest.mark.parametrize(
    "header",
    [
        "session_id;correo;Artículo;Fecha;Valoración",
        "session_id;user_email;idProducto;created_at;stars",
        "session;E-Mail-Adresse;Artikel-Nr.;Bestelldatum;Bewertung",
        "session_id;Utilisateur;id_produit;horodatage;étoiles",
        "session_id;codice cliente;articolo;data_ora;valutazione",
    ],
)
def test_people_are_users_before_sessions_in_other_languages_too(header, tmp_path):
    rows = [f"s{n};u{n % 4}@shop.es;p{n % 3};{n:02}/03/2026;{n % 5 + 1}" for n in range(1, 29)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    assert guess_setting(str(path)).setting == "rs"
    said = []
    clicks = read_clicks(path, report=said.append)
    session, user, item, time, rating = header.split(";")
    assert {**(clicks.columns or {}), "date_order": "dmy"} == {
        "user": user, "item": item, "time": time, "rating": rating, "date_order": "dmy",
    }  # fmt: skip
    assert f"took column {user!r} as the user, rather than the sessions of {session!r}" in said[0]


def test_sessions_are_users_where_the_other_column_is_what_they_were_on(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("session_id,client,product,score\n1,ios,a,good\n1,ios,b,bad\n2,web,a,good\n")
    columns = read_clicks(path).columns or {}
    assert columns["user"] == "session_id"
    assert columns["rating"] is None  # words are no ratings
