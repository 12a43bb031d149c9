"""What a file holds is told by its columns, said aloud, or asked for."""

import pytest

from groupnoise.exceptions import DataError
from groupnoise.io.columns.setting_guess import guess_setting, settings_by_columns


@pytest.mark.parametrize(
    ("columns", "given", "settings"),
    [
        (["user_id", "movieId", "rating", "timestamp"], (), ["rs"]),
        (["bag", "label", "x1", "x2"], (), ["mil"]),
        (["x1", "x2", "Candidates"], (), ["pll"]),
        (["bag", "labels", "x1"], (), ["mil"]),
        (["who", "what"], ("user", "item"), ["rs"]),
        (["x1", "options"], ("candidates",), ["pll"]),
        (["bag", "labels", "x1"], ("candidates",), ["mil", "pll"]),
        (["user", "item", "bag", "label"], (), ["rs", "mil"]),
        (["x1", "x2"], (), []),
        (["Ausleih-Nr.", "Leser-Nr.", "Mediennummer", "Ausleihdatum"], (), ["rs"]),
        (["InvoiceNo", "StockCode", "Quantity", "InvoiceDate", "CustomerID"], (), ["rs"]),
        (["account", "article_no", "order_date", "quantity"], (), ["rs"]),
        (["listener", "episode", "played_at", "seconds_played"], (), ["rs"]),
    ],
)
def test_columns_tell_the_setting(columns, given, settings):
    assert settings_by_columns(columns, given) == settings


@pytest.mark.parametrize(
    ("name", "content", "setting"),
    [
        ("log.csv", "user,item\n1,2\n", "rs"),
        ("log.tsv", "user\titem\n1\t2\n", "rs"),
        ("bags.csv", "bag,label,x\na,1,0.5\n", "mil"),
        ("rows.jsonl", '{"candidates": ["a"], "x": 1}\n', "pll"),
    ],
)
def test_the_head_of_a_file_is_enough(tmp_path, name, content, setting):
    path = tmp_path / name
    path.write_text(content)
    guess = guess_setting(str(path))
    assert guess.setting == setting
    assert f"--setting {setting}" in guess.sentence


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n", "do not tell"),
        ("user,item,bag,label\n1,2,3,4\n", "more than one"),
        ("", "is empty"),
    ],
)
def test_what_is_not_told_is_asked_for(tmp_path, content, said):
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=said):
        guess_setting(str(path))


def test_a_folder_without_files_is_called_so(tmp_path):
    with pytest.raises(DataError, match="a folder without files"):
        guess_setting(str(tmp_path))


@pytest.mark.parametrize("names", ["slide,result", "Blech,Befund"])
def test_a_row_against_the_label_of_its_bag_is_named(tmp_path, names):
    rows = [f"s{n // 3},{'ok' if n % 6 < 3 else 'bad'},{n}.5,{n * n}.5" for n in range(60)]
    rows[7] = rows[7].replace("ok", "bad")
    (tmp_path / "plates.csv").write_text("\n".join([f"{names},a,b", *rows]))
    group, label = names.split(",")
    told = rf"line 9: bag 's2' has rows with different labels, as 1 of 20 have, if '{group}' is the"
    with pytest.raises(DataError, match=rf"{told} bag and '{label}' its label; correct that row"):
        guess_setting(str(tmp_path / "plates.csv"))


def test_a_column_that_differs_in_most_groups_is_no_label_of_them(tmp_path):
    rows = [f"s{n // 3},{'ok' if n % 2 else 'bad'},{n}.5,{n * n}.5" for n in range(60)]
    (tmp_path / "plates.csv").write_text("\n".join(["slide,result,a,b", *rows]))
    with pytest.raises(DataError, match="do not tell what it holds"):
        guess_setting(str(tmp_path / "plates.csv"))


@pytest.mark.parametrize("setting", [None, "mil"])
def test_numbers_apart_by_blanks_below_comments_are_bags_and_no_histories(tmp_path, setting):
    lines = ["% a set of bags", "%", "% bag, class and two figures of each instance"]
    lines += [f"{row // 4} {row // 4 % 2} {row}.{row % 7} -0.{row}" for row in range(60)]
    (tmp_path / "bags.txt").write_text("\n".join(lines) + "\n")
    guess = guess_setting(str(tmp_path / "bags.txt"), setting=setting)
    assert guess.setting == "mil"
    assert dict(guess.columns) == {"group": "column_1", "label": "column_2"}


def test_lines_of_several_lengths_are_no_clicks_where_bags_were_asked_for(tmp_path):
    (tmp_path / "odd.txt").write_text("u1 a b c\nu2 a b\nu3 a\nu4 b d e f\n")
    assert guess_setting(str(tmp_path / "odd.txt")).setting == "rs"
    with pytest.raises(DataError):
        guess_setting(str(tmp_path / "odd.txt"), setting="mil")
