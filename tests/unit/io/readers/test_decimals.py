"""Decimal commas, points between thousands, and a cleaned copy in the form of its file."""

import pytest

from groupnoise.audit.clean import write_cleaned_table
from groupnoise.candidates import read_candidates
from groupnoise.clicks import convert_clicks, read_clicks
from groupnoise.exceptions import ParameterError
from groupnoise.io.tables.table import read_table
from groupnoise.votes.files import read_votes


def table(folder, text, **options):
    path = folder / "rows.csv"
    path.write_text(text, encoding="utf-8")
    said = []
    return read_table(path, report=said.append, **options).frame, said


def test_commas_are_decimals_where_semicolons_stand_between_cells(tmp_path):
    frame, said = table(tmp_path, "a;b;c\n0,5;1.200;x\n12,25;950;y\n-3,0;;z\n")
    assert frame["a"].to_list() == ["0.5", "12.25", "-3.0"]
    assert frame["b"].to_list() == ["1200", "950", None]
    assert len(said) == 1
    assert "read commas as decimal points in 1 column" in said[0]
    assert "--decimal . says otherwise" in said[0]


@pytest.mark.parametrize(
    "text",
    [
        "a;b\n1,200;0.5\n12,350;0.7\n",  # thousands, or three decimals
        "a;b\n1,2,3;0.5\n2,1;0.7\n",  # lists
        "label;b\n1,2;0.5\n2,1;0.7\n",  # labels
        "a;b\n1.200;x\n0.950;y\n",  # points
        'a,b\n"0,5",1\n"0,7",2\n',  # commas stand between cells
    ],
)
def test_what_may_be_something_else_is_left_alone(tmp_path, text):
    frame, said = table(tmp_path, text)
    plain, _ = table(tmp_path, text, decimal=".")
    assert frame.equals(plain)
    assert said == []


def test_decimals_are_read_as_they_are_said_to_be(tmp_path):
    frame, said = table(tmp_path, 'a,b\n"1,250",x\n"0,7",y\n', decimal=",")
    assert frame["a"].to_list() == ["1.250", "0.7"]
    frame, said = table(tmp_path, "a;b\n0,5;1\n0,7;2\n", decimal=".")
    assert frame["a"].to_list() == ["0,5", "0,7"]
    assert said == []
    with pytest.raises(ParameterError, match="decimal"):
        table(tmp_path, "a;b\n0,5;1\n", decimal="'")


def test_cells_that_say_that_they_are_missing_are_told_by_their_line(tmp_path):
    frame, _ = table(tmp_path, "a;b\n0,5;1\nNA;2\n0,7;3\n")
    assert frame["a"].to_list() == ["0.5", "NA", "0.7"]


def test_columns_that_a_user_names_as_words_stay_words(tmp_path):
    path = tmp_path / "rows.csv"
    rows = "".join(f"{k % 5},{k % 3};{k},5;{k},25\n" for k in range(30))
    path.write_text(f"heard;x;y\n{rows}", encoding="utf-8")
    data = read_candidates(path, candidates="heard")
    assert data.class_names == ["0", "1", "2", "3", "4"]
    assert data.features[1].tolist() == [1.5, 1.25]


def test_ratings_and_confidences_may_have_commas(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("user;item;rating\na;x;4,5\na;y;2,0\nb;x;5\n", encoding="utf-8")
    assert read_clicks(log, min_rating=4).histories.n_objects == 2
    votes = tmp_path / "votes.csv"
    lines = "1;ann;cat;0,9\n1;bob;dog;0,6\n2;ann;dog;1\n"
    votes.write_text(f"row;annotator;label;confidence\n{lines}", encoding="utf-8")
    assert read_votes(votes).votes.doubt().max() > 0


@pytest.mark.parametrize(
    "names", ["Zeile;Bewerter;Etikett;Sicherheit", "ligne;annotateur;étiquette;confiance",
              "fila;anotador;etiqueta;confianza"],
)  # fmt: skip
def test_votes_are_read_under_names_of_other_languages(tmp_path, names):
    path = tmp_path / "votes.csv"
    path.write_text(f"{names}\n1;ann;cat;0,9\n1;bob;dog;0,6\n2;ann;dog;1\n", encoding="utf-8")
    votes = read_votes(path).votes
    assert votes.annotator_names == ["ann", "bob"]
    assert votes.class_names == ["cat", "dog"]
    assert votes.doubt().max() > 0


def test_titles_above_a_table_are_skipped(tmp_path):
    path, said = tmp_path / "rows.csv", []
    path.write_text("Measured in May\n\nbag;x;y\na;1;2\nb;3;4\n", encoding="utf-8")
    rows = read_table(path, report=said.append)
    assert rows.frame.columns == ["bag", "x", "y"]
    assert rows.locate(1).endswith("line 5")
    assert said == [f"skipped 2 lines above the names of the columns of {path}"]
    path.write_text('text\n"a, b, c"\n"d, e, f"\n"g, h, i"\n', encoding="utf-8")
    assert read_table(path).frame.columns == ["text"]


@pytest.mark.parametrize("above", ["Clicks of May\n\n", "# clicks of May\n"])
def test_a_log_below_a_title_or_a_comment_is_converted(tmp_path, above):
    path = tmp_path / "log.csv"
    path.write_text(f"{above}user,item,time\na,x,1\na,y,2\nb,x,3\n", encoding="utf-8")
    assert convert_clicks(path, tmp_path / "out").histories.n_objects == 3


@pytest.mark.parametrize(
    "days",
    [
        ("02 Feb 2024", "01 Mar 2024"),
        ("February 2, 2024", "March 1, 2024"),
        ("20240202", "20240301"),
        ("02/20/2024 11:00 PM", "03/01/2024 1:00 AM"),
    ],
)
def test_dates_in_odd_forms_order_clicks(tmp_path, days):
    path = tmp_path / "log.csv"
    lines = "\n".join(
        f'{user},{item},"{day}"'
        for user in "ab"
        for item, day in zip("yx", days[::-1], strict=True)
    )
    path.write_text(f"user,item,when\n{lines}\n", encoding="utf-8")
    log = read_clicks(path)
    assert log.item_ids[log.histories[0]].tolist() == ["x", "y"]


def test_labels_joined_by_a_mark_are_split_where_they_recur_and_else_pointed_out(tmp_path):
    path = tmp_path / "rows.csv"
    for joined, told in (
        (("cat/dog", "dog/emu", "cat/emu"), "split the labels of a cell at '/'"),
        (("cat/dog", "cat", "dog"), "say --label-separator '/'"),
    ):
        said: list[str] = []
        rows = "".join(f"{k},{joined[k % 3]}\n" for k in (3, 1, 4, 1, 5, 9))
        path.write_text(f"x,candidates\n{rows}", encoding="utf-8")
        read_candidates(path, report=said.append)
        assert any(told in sentence for sentence in said)


def test_votes_of_nobody_are_told(tmp_path):
    path, said = tmp_path / "votes.csv", []
    path.write_text("row,annotator,label\n1,ann,cat\n1,,dog\n2,ann,dog\n", encoding="utf-8")
    read_votes(path, report=said.append)
    assert any(
        "1 vote without an annotator" in sentence and "line 3" in sentence for sentence in said
    )


def test_a_copy_keeps_separator_mark_and_decimals(tmp_path):
    path, copy = tmp_path / "rows.csv", tmp_path / "copy.csv"
    path.write_text("a;b\n0,5;1\n0,7;2\n", encoding="utf-8-sig")
    rows = read_table(path, decimal=".")
    assert (rows.separator, rows.has_mark) == (";", True)
    write_cleaned_table(
        copy, rows.frame, separator=rows.separator, header=True, has_mark=rows.has_mark
    )
    assert copy.read_bytes() == path.read_bytes()
