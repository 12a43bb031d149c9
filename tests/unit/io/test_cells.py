"""Sentences about cells say what is true of them: one row, or how many."""

import re

import pytest

from groupnoise.candidates import read_candidates
from groupnoise.clicks import read_clicks
from groupnoise.exceptions import DataError, EmptyGroupError


@pytest.mark.parametrize(
    ("n_empty", "said"),
    [(1, "empty there;"), (2, "empty there and in 1 other row;"), (3, "and in 2 other rows;")],
)
def test_an_empty_cell_is_counted_in_words(tmp_path, n_empty, said):
    from groupnoise.bags import read_bags

    path = tmp_path / "bags.csv"
    groups = ["", *("" if row < n_empty else "a" for row in range(1, 4))]
    rows = [f"{group},yes,{row}.5" for row, group in enumerate(groups)]
    path.write_text("\n".join(["bag,label,x", *rows]))
    with pytest.raises(DataError, match=said):
        read_bags(path)


def test_a_single_row_without_candidates_is_told_alone(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y,cand_a,cand_b\n0.5,1,1,0\n1.5,2,0,0\n2.5,3,0,1\n")
    with pytest.raises(EmptyGroupError, match=r"no candidate label there; drop such rows"):
        read_candidates(path)


def test_a_time_of_another_form_is_shown_beside_one_of_the_others(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("user,item,time\na,x,2026-01-31T14:58:23Z\na,y,2026-03-02 10:16:42\n")
    said = (
        "line 3: column 'time' holds '2026-03-02 10:16:42', which is neither a number nor a date "
        "like the others ('2026-01-31T14:58:23Z'); write all times in one form"
    )
    with pytest.raises(DataError, match=re.escape(said)):
        read_clicks(path)


def test_a_limit_of_detection_is_refused_with_what_to_write(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y,candidates\n0.5,1,a\n<0.2,2,a;b\n2.5,3,b\n")
    with pytest.raises(DataError, match=r"line 3: .*'<0.2', which is a limit of detection.*half"):
        read_candidates(path)
