"""Only pictures that the table names are sent, as what they are."""

import pandas as pd
import pytest

from groupnoise.audit.evidence import picture_columns, picture_paths, read_picture
from groupnoise.exceptions import DataError
from groupnoise.io.tables.table import read_table
from groupnoise.review import Desk
from groupnoise.review.questions import RowQuestions
from groupnoise.votes import resolve

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0more", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_a_picture_is_called_what_its_bytes_are(tmp_path, content, media_type):
    path = tmp_path / "wrongly_called.png"
    path.write_bytes(content)
    assert read_picture(path) == (content, media_type)


def test_what_is_no_picture_missing_or_too_large_is_refused(tmp_path, monkeypatch):
    secret = tmp_path / "secret.png"
    secret.write_text("root:x:0:0")
    with pytest.raises(DataError, match=r"secret\.png is no PNG"):
        read_picture(secret)
    (tmp_path / "page.png").write_text("<svg onload='alert(1)'/>")
    with pytest.raises(DataError, match="is no PNG"):
        read_picture(tmp_path / "page.png")
    with pytest.raises(DataError, match="No such file"):
        read_picture(tmp_path / "none.png")
    with pytest.raises(DataError, match="cannot be read"):
        read_picture(tmp_path / "a\0b.png")
    monkeypatch.setattr("groupnoise.audit.evidence.MAX_BYTES", 10)
    (tmp_path / "large.png").write_bytes(PNG)
    with pytest.raises(DataError, match="larger than"):
        read_picture(tmp_path / "large.png")


def test_columns_of_pictures_are_found_by_their_cells(tmp_path):
    frame = pd.DataFrame({"a": ["x.png", "y.JPG", None], "b": ["x.png", "no", "z"], "n": [1, 2, 3]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv")
    assert picture_columns(table, None) == ["a"]
    assert picture_columns(table, "b") == ["b"]
    paths = picture_paths(table.frame, ["a"], tmp_path)
    assert paths == [[tmp_path / "x.png"], [tmp_path / "y.JPG"], []]
    assert picture_paths(table.frame, [], tmp_path) == [[], [], []]


def test_a_desk_sends_the_pictures_of_its_rows_and_no_others(tmp_path):
    (tmp_path / "one.png").write_bytes(PNG)
    found = resolve(
        pd.DataFrame({"file": ["one.png", ""], "ann_1": list("xy"), "ann_2": list("yy")})
    )
    files = picture_paths(found.rows, ["file"], tmp_path)
    desk = Desk(RowQuestions(found, files), tmp_path / "a.jsonl")
    assert desk.show(0)["pictures"] == ["/v1/picture/0/0"]
    assert desk.show(1)["pictures"] == []
    assert desk.picture(0, 0).content == PNG
    for row, position in ((0, 1), (1, 0), (0, -1), (7, 0)):
        with pytest.raises(DataError):
            desk.picture(row, position)
    desk.close()
