"""Comments are skipped, ids that begin as comments do are not, and lines keep their numbers."""

import pytest

from groupnoise.exceptions import DataError
from groupnoise.io.tables.delimited import strip_comments
from groupnoise.io.tables.table import read_table


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("% one\n# two\na,b\n1,2\n", ("a,b\n1,2\n", 2, 0)),
        ("a,b\n#x,1\n#y,2\n", ("a,b\n#x,1\n#y,2\n", 0, 0)),
        ("a,b\n# a remark\n1,2\n", ("a,b\n\n1,2\n", 0, 1)),
        ("#x,1\n#y,2\n", ("#x,1\n#y,2\n", 0, 0)),
        ('a,b\n"two\n# lines",2\n', ('a,b\n"two\n# lines",2\n', 0, 0)),
    ],
)
def test_what_is_a_comment(text, left):
    assert strip_comments(text, ",") == left


def test_a_bad_cell_after_comments_is_named_by_its_line(tmp_path):
    from groupnoise.bags.reading.reader import read_bags

    path = tmp_path / "bags.txt"
    path.write_text("% made\n# by hand\nbag label x\n1 a 0.5\n# between\n2 b oops\n3 a 1.5\n")
    with pytest.raises(DataError, match=r"line 6: column 'x' holds 'oops'"):
        read_bags(path, features="x")


def test_a_comment_may_name_the_columns_of_a_table_of_blanks(tmp_path):
    path = tmp_path / "bags.txt"
    path.write_text("% made by hand\n# bag label x y\n1 a 0.5 2\n1 a 0.1 3\n2 b 1.5 4\n")
    table = read_table(path)
    assert table.frame.columns == ["bag", "label", "x", "y"]
    assert table.frame.rows()[0] == ("1", "a", "0.5", "2")
    path.write_text("# four words like these\n1 a 0.5 2\n")
    assert read_table(path).frame.columns[0] == "column_1"


def test_cells_may_be_apart_by_any_blanks(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a   b\n1 \t 2\n")
    for separator in (" ", "space"):
        assert read_table(path, separator=separator).frame.rows() == [("1", "2")]
