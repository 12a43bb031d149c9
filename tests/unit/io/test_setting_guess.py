"""What a file holds is told by its columns, said aloud, or asked for."""

import pytest

from groupnoise.exceptions import DataError
from groupnoise.io.setting_guess import guess_setting, settings_of_columns


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
    ],
)
def test_columns_tell_the_setting(columns, given, settings):
    assert settings_of_columns(columns, given) == settings


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
