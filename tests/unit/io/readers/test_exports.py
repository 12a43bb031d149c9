"""Files as programs export them: objects in lists, sums below a table, and several ids of a bag."""

import json

import numpy as np
import polars as pl
import pytest

from groupnoise.bags import read_bags
from groupnoise.candidates import read_candidates
from groupnoise.clicks import read_clicks
from groupnoise.exceptions import DataError
from groupnoise.io.columns.setting_guess import guess_setting
from groupnoise.io.tables.table import read_table


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def regions(n_photos=40):
    rng = np.random.default_rng(0)
    return [
        {
            "photo": f"p{number}.jpg",
            "tags": ["cat" if number % 2 else "dog"],
            "regions": [
                {"box": [1, 2, 3, 4], "vec": rng.normal(size=6).tolist(), "id": region}
                for region in range(1 + number % 3)
            ],
        }
        for number in range(n_photos)
    ]


def test_regions_of_photos_in_json_are_instances_of_bags(tmp_path):
    path, said = write_lines(tmp_path / "photos.jsonl", regions()), []
    data = read_bags(path, group="photo", label="tags", report=said.append)
    assert data.bags.sizes.tolist() == [1 + number % 3 for number in range(40)]
    assert data.bags.objects.shape[1] == 6
    assert "made a row of each object in the cells of column 'regions'" in said
    assert "took column 'regions.vec' as the features, the longest lists" in said
    assert "left out 'regions.box', other lists (--features names one)" in said


def test_sessions_with_their_events_in_a_list_are_clicks(tmp_path):
    sessions = [
        {
            "session": user,
            "events": [
                {"aid": 500 + (user + step) % 30, "ts": 1_660_000_000_000 + step, "type": "clicks"}
                for step in range(2 + user % 4)
            ],
        }
        for user in range(60)
    ]
    path = write_lines(tmp_path / "log.jsonl", sessions)
    guess = guess_setting(str(path))
    assert guess.columns == {"user": "session", "item": "events.aid", "time": "events.ts"}
    clicks = read_clicks(path, **guess.columns)
    assert [len(history) for history in clicks.histories] == [2 + user % 4 for user in range(60)]


def test_predictions_in_a_list_of_objects_are_candidates_with_weights(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {
            "vec": rng.normal(size=3).tolist(),
            "predictions": [
                {"label": label, "confidence": share}
                for label, share in zip(rng.permutation(["cat", "dog"]), (0.7, 0.3), strict=True)
            ],
        }
        for _ in range(40)
    ]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    guess = guess_setting(str(path))
    assert (guess.setting, guess.columns) == ("pll", {"candidates": "predictions"})
    data = read_candidates(path, **guess.columns)
    assert data.features.shape == (40, 3)
    assert set(np.unique(data.weights)) == {0.3, 0.7}


def test_words_with_a_share_in_brackets_are_candidates(tmp_path):
    rng = np.random.default_rng(0)
    labels = [rng.permutation(["cat", "dog", "emu"])[:2] for _ in range(40)]
    shares = rng.random(40)
    cells = [f"{a} ({s:.2f}), {b} ({1 - s:.2f})" for (a, b), s in zip(labels, shares, strict=True)]
    frame = pl.DataFrame({"u": rng.random(40), "v": rng.random(40), "suggested": cells})
    frame.write_csv(tmp_path / "rows.csv")
    guess = guess_setting(str(tmp_path / "rows.csv"))
    assert (guess.setting, guess.columns) == ("pll", {"candidates": "suggested"})


@pytest.mark.parametrize("word", ["Total", "Summe:", "Grand total", "Gesamt", "Somme", "TOTALE"])
def test_a_row_of_sums_below_a_table_is_left_out(tmp_path, word):
    path, said = tmp_path / "bags.csv", []
    path.write_text(f"bag;label;x\na;yes;1,5\na;yes;2,5\nb;no;1,0\n{word};;5,0\n")
    table = read_table(path, report=said.append)
    assert table.frame["bag"].to_list() == ["a", "a", "b"]
    assert said[0] == f"left out {path}, line 5, which begins with {word!r} and sums up the others"
    assert len(read_bags(path).bags) == 2


def test_a_last_row_that_is_whole_or_begins_otherwise_is_no_sum(tmp_path):
    for last in ("total;no;5", "totally;;5", "c;;5"):
        path = tmp_path / "bags.csv"
        path.write_text(f"bag;label;x\na;yes;1\na;yes;2\nb;no;1\n{last}\n")
        assert len(read_table(path).frame) == 4


def machines(n_machines=4, n_days=15, n_hours=3):
    rng = np.random.default_rng(0)
    rows = [(m, d, h) for m in range(n_machines) for d in range(n_days) for h in range(n_hours)]
    broken = rng.random((n_machines, n_days)) < 0.4
    return pl.DataFrame(
        {
            "machine": [f"M{m}" for m, _, _ in rows],
            "day": [f"2025-03-{1 + d:02d}" for _, d, _ in rows],
            "hour": [h for _, _, h in rows],
            "heat": rng.normal(size=len(rows)),
            "speed": rng.normal(size=len(rows)),
            "failure": [int(broken[m, d]) for m, d, _ in rows],
        }
    )


def test_several_columns_make_the_ids_of_bags(tmp_path):
    machines().write_csv(tmp_path / "log.csv")
    data = read_bags(tmp_path / "log.csv", group="machine,day", label="failure")
    assert len(data.bags) == 60
    assert data.bag_ids[:2].tolist() == ["M0 2025-03-01", "M0 2025-03-02"]
    assert data.feature_names == ("heat", "speed")
    with pytest.raises(DataError, match="no column 'machine,dya' to be the group"):
        read_bags(tmp_path / "log.csv", group="machine,dya", label="failure")
    gaps = machines().with_columns(day=pl.lit(""))
    with pytest.raises(DataError, match="column 'machine,day' is empty"):
        read_bags(gaps, group="machine,day", label="failure")
