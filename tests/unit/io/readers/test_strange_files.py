"""Files as strangers have them: packed, nested, half labelled by people and half by programs."""

import gzip
import json
import zipfile
from datetime import datetime

import numpy as np
import polars as pl
import pytest

from groupnoise.audit.clean import rewritten_cell, write_cleaned_table
from groupnoise.bags import read_bags
from groupnoise.candidates import read_candidates
from groupnoise.cli.sources import DataOptions, load_data
from groupnoise.clicks import read_clicks
from groupnoise.clicks.reading.streaming import convert_clicks
from groupnoise.exceptions import DataError, MissingColumnError, ParameterError
from groupnoise.io.columns.setting_guess import guess_setting
from groupnoise.reproduce.methods import find_method

NAMES = ("cat", "dog", "fox", "owl")


def slides(n_bags=40, sizes=(3, 5, 4)):
    """Return one row per tile: bag, label, and two features."""
    generator = np.random.default_rng(0)
    bags = np.repeat(np.arange(n_bags), np.resize(sizes, n_bags))
    return {
        "slide": [f"S{each}" for each in bags],
        "f0": generator.normal(size=len(bags)).round(3),
        "f1": generator.normal(size=len(bags)).round(3),
        "diagnosis": np.where(bags // 2 % 2, "malignant", "benign"),
    }


def candidate_sets(n_rows=120):
    generator = np.random.default_rng(1)
    return [
        generator.choice(NAMES, int(generator.integers(1, 4)), replace=False).tolist()
        for _ in range(n_rows)
    ]


def candidate_rows(cells):
    return {"x": np.linspace(0, 1, len(cells)), "z": np.arange(len(cells)) % 7, "candidates": cells}


def as_read(path):
    """Return the data set of a file without any option, and all that was said."""
    said = []
    guess = guess_setting(str(path))
    read = {"mil": read_bags, "pll": read_candidates, "rs": read_clicks}[guess.setting]
    return read(path, report=said.append, **guess.columns), "; ".join([guess.sentence, *said])


def test_bags_of_a_patient_in_a_table_stay_together_and_name_no_feature():
    columns = slides()
    numbers = [int(name[1:]) // 2 for name in columns["slide"]]
    for patients in ([f"P{number}" for number in numbers], numbers):
        said = []
        data = read_bags(pl.DataFrame({**columns, "patient": patients}), report=said.append)
        assert data.feature_names == ("f0", "f1")
        assert len(np.unique(data.patients)) == 20
        assert data.patients[0] == data.patients[1] != data.patients[2]
        assert any("each of the 20 in column 'patient' stay together" in each for each in said)
    columns["mouse"] = numbers
    data = read_bags(pl.DataFrame(columns), patient="mouse")
    assert data.patients.tolist()[:3] == ["0", "0", "1"]
    columns["mouse"] = np.arange(len(numbers))
    with pytest.raises(DataError, match="differs, in rows of the bag"):
        read_bags(pl.DataFrame(columns), patient="mouse")


def test_a_subject_of_few_values_is_a_category_and_nobody():
    columns = slides(60)
    columns["subject"] = [("maths", "music")[int(name[1:]) % 2] for name in columns["slide"]]
    data = read_bags(pl.DataFrame(columns))
    assert data.patients is None
    assert "subject: maths" in data.feature_names
    assert len(set(read_bags(pl.DataFrame(columns), patient="subject").patients)) == 2


def test_what_all_rows_of_few_bags_share_is_no_category():
    columns = slides(40, sizes=(12,))
    columns["mouse"] = [f"M{int(name[1:]) // 4}" for name in columns["slide"]]
    columns["site"] = [f"site {'AB'[int(name[1:]) % 2]}" for name in columns["slide"]]
    names = read_bags(pl.DataFrame(columns)).feature_names
    assert names[:2] == ("f0", "f1")
    assert {name.partition(":")[0] for name in names[2:]} == {"site"}


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".txt"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_objects_is_a_table(tmp_path, suffix, indent):
    columns = {name: list(cells) for name, cells in slides().items()}
    records = pl.DataFrame(columns).to_dicts()
    path = tmp_path / f"rows{suffix}"
    path.write_text(json.dumps(records, indent=indent))
    data, _ = as_read(path)
    assert len(data.bags) == 40
    assert data.feature_names == ("f0", "f1")
    records[7]["f0"] = "broken"
    path.write_text(json.dumps(records, indent=indent))
    with pytest.raises(DataError, match=r"8: column 'f0' holds 'broken'|one type each"):
        as_read(path)
    path.write_text(json.dumps(records)[:-20])
    with pytest.raises(DataError, match="is not a whole list of JSON"):
        as_read(path)


def test_an_archive_of_one_file_is_read_and_of_more_is_not(tmp_path):
    text = pl.DataFrame(slides()).write_csv()
    path = tmp_path / "rows.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("export/rows.csv", text)
        archive.writestr("__MACOSX/export/._rows.csv", b"\x00")
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    for each in (path, tmp_path / "rows.csv.gz"):
        assert len(as_read(each)[0].bags) == 40
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("export/labels.csv", text)
    with pytest.raises(DataError, match=r"rows.zip is a zip archive .*; unpack it"):
        as_read(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="not a whole zip file"):
        as_read(path)


def test_arff_is_refused_by_its_name(tmp_path):
    path = tmp_path / "musk.arff"
    path.write_text("% musk\n@relation musk\n@attribute bag {a,b}\n@data\na,1\n")
    with pytest.raises(DataError, match="is ARFF, which is not read; save it as CSV"):
        as_read(path)


def test_objects_in_json_become_columns_of_their_parts(tmp_path):
    path = tmp_path / "log.jsonl"
    clicks = [
        (user, (user + step) % 9, 1_700_000_000 + step) for user in range(6) for step in range(5)
    ]
    path.write_text(
        "".join(
            json.dumps(
                {"user": {"id": f"u{u}", "country": "DE"}, "item": {"sku": f"i{i}"}, "ts": t}
            )
            + "\n"
            for u, i, t in clicks
        )
    )
    data, said = as_read(path)
    assert data.user_ids.tolist() == [f"u{user}" for user in range(6)]
    assert "made columns of the parts of objects: 'user.id', 'user.country', 'item.sku'" in said
    sets = candidate_sets()
    rows = [
        {"features": {"a": 3.5 - n % 7, "b": n % 5}, "candidates": each}
        for n, each in enumerate(sets)
    ]
    assert read_candidates(pl.DataFrame(rows)).feature_names == ("features.a", "features.b")
    rows = [
        {"x": float(n % 5), "candidates": dict.fromkeys(each, 1.0)} for n, each in enumerate(sets)
    ]
    assert read_candidates(pl.DataFrame(rows)).class_names == sorted(NAMES)


def test_lists_of_instances_become_rows(tmp_path):
    path = tmp_path / "bags.jsonl"
    bags = [
        {"id": f"b{n}", "label": "ny"[n % 2], "tiles": [[n, 1.5]] * (2 + n % 3)} for n in range(30)
    ]
    path.write_text("".join(json.dumps(bag) + "\n" for bag in bags))
    data, said = as_read(path)
    assert data.bags.sizes.tolist() == [2 + n % 3 for n in range(30)]
    assert "made a row of each list of numbers in the cells of column 'tiles'" in said
    bags[3]["tiles"] = []
    path.write_text("".join(json.dumps(bag) + "\n" for bag in bags))
    with pytest.raises(DataError, match="line 4: column 'tiles' is empty"):
        as_read(path)
    pictures = [
        {"candidates": each, "picture": [[0.0, 1.0], [1.0, n]]} for n, each in enumerate("abab")
    ]
    with pytest.raises(DataError, match="several rows of features in each cell"):
        read_candidates(pl.DataFrame(pictures))


def test_labels_with_their_weights_are_no_labels_of_their_own():
    sets = candidate_sets()
    shares = [{name: round(1 / len(each), 2) for name in each} for each in sets]
    texts = [";".join(f"{name}:{share}" for name, share in each.items()) for each in shares]
    in_words = [", ".join(f"{name} ({share})" for name, share in each.items()) for each in shares]
    pairs = [[{"name": name, "score": share} for name, share in each.items()] for each in shares]
    for cells in (texts, in_words, pairs):
        data = read_candidates(pl.DataFrame(candidate_rows(cells)))
        assert data.class_names == sorted(NAMES)
        named = [[NAMES.index(name) for name in sorted(each)] for each in sets]
        assert [row.nonzero()[0].tolist() for row in data.candidates] == named
    codes = ["GO:0005634|GO:0005737", "GO:0005634", "GO:0005737"] * 4
    data = read_candidates(pl.DataFrame(candidate_rows(codes)))
    assert data.class_names == ["GO:0005634", "GO:0005737"]
    objects = [[{"name": "cat", "by": "ann"}]] * 12
    with pytest.raises(DataError, match="holds objects or lists in its cells where labels"):
        read_candidates(pl.DataFrame(candidate_rows(objects)))


def test_words_that_change_places_are_labels_of_their_own():
    said = []
    cells = [" ".join(each) for each in candidate_sets()]
    data = read_candidates(pl.DataFrame(candidate_rows(cells)), report=said.append)
    assert data.class_names == sorted(NAMES)
    assert any("split the labels of a cell at ' '" in each for each in said)
    for mark in (" / ", " or ", " & ", "/"):
        cells = [mark.join(each) for each in candidate_sets()]
        data = read_candidates(pl.DataFrame(candidate_rows(cells)))
        assert data.class_names == sorted(NAMES)
    grid = ["red wine", "white wine", "red car", "white car"] * 5
    assert len(read_candidates(pl.DataFrame(candidate_rows(grid))).class_names) == 4


def test_ids_and_labels_that_became_floats_tell_bags(tmp_path):
    columns = slides()
    path = tmp_path / "musk.data"
    rows = zip(columns["slide"], columns["f0"], columns["f1"], columns["diagnosis"], strict=True)
    path.write_text("".join(f"{s[1:]}.0,{a},{b},{int(d > 'c')}.\n" for s, a, b, d in rows))
    data, _ = as_read(path)
    assert len(data.bags) == 40
    assert data.class_names == ["0.", "1."]


def test_labels_of_one_bag_in_several_spellings_are_one(tmp_path):
    columns = slides()
    cells = enumerate(columns["diagnosis"])
    columns["diagnosis"] = [f" {cell.upper()}" if n % 2 else cell for n, cell in cells]
    path = tmp_path / "spelt.csv"
    pl.DataFrame(columns).rename({"slide": "sample"}).write_csv(path)
    data, said = as_read(path)
    assert data.class_names == ["benign", "malignant"]
    assert "read 'BENIGN' as 'benign', 'MALIGNANT' as 'malignant': bags hold both" in said


def test_columns_of_marks_are_advised_to_be_labels(tmp_path):
    sets = candidate_sets()
    path = tmp_path / "marks.csv"
    marks = {name: [int(name in each) for each in sets] for name in NAMES}
    pl.DataFrame({"x": np.linspace(0, 1, len(sets)), **marks}).write_csv(path)
    with pytest.raises(DataError, match="say --candidates 'cat,dog,fox,owl'"):
        guess_setting(str(path))
    columns = slides()
    del columns["diagnosis"]
    numbers = [int(name[1:]) for name in columns["slide"]]
    marks = {name: [(n // (k + 1)) % 2 == 0 for n in numbers] for k, name in enumerate(NAMES[:3])}
    pl.DataFrame({**columns, **marks}).write_csv(path)
    with pytest.raises(DataError, match="--group 'slide' --label 'cat,dog,fox' or "):
        guess_setting(str(path))


def test_rows_that_were_clicked_are_what_is_advised():
    said = []
    clicks = {"user": ["a", "a", "b", "b"], "item": ["x", "y", "x", "y"]}
    clicked = ["False", "True", "False", "True"]
    read_clicks(pl.DataFrame({**clicks, "clicked": clicked}), report=said.append)
    assert any("--only clicked=True learns from such rows alone" in each for each in said)


@pytest.mark.parametrize("write", [str, json.dumps, lambda row: str(np.array(row))])
def test_lists_of_numbers_in_text_are_features(tmp_path, write):
    columns = slides()
    vectors = zip(columns.pop("f0").tolist(), columns.pop("f1").tolist(), strict=True)
    path = tmp_path / "embedded.csv"
    pl.DataFrame({**columns, "embedding": [write(list(each)) for each in vectors]}).write_csv(path)
    data, _ = as_read(path)
    assert data.bags.objects.shape[1] == 2
    cells = [f"[{number % 3}.0, 3.0]" for number in range(12)]  # whole numbers may be labels
    assert len(read_candidates(pl.DataFrame(candidate_rows(cells))).class_names) == 4


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ("cat|dog", "dog"),
        ("cat / big dog / emu", "big dog / emu"),
        ("cat emu dog", "emu dog"),
        ("CAT; Dog", "Dog"),
        ("cat:0.5;dog:0.5", "dog:0.5"),
        ("{'cat': 0.5, 'dog': 0.5}", '{"dog": 0.5}'),
        (
            [{"name": "cat", "score": 0.5}, {"name": "dog", "score": 0.5}],
            [{"name": "dog", "score": 0.5}],
        ),
        (["cat", "dog"], ["dog"]),
    ],
)
def test_labels_that_are_left_keep_their_notation(cell, left):
    assert (
        rewritten_cell(cell, ["big dog" if "big" in cell else "dog"] + ["emu"] * ("emu" in cell))
        == left
    )


def test_a_cleaned_copy_as_text_holds_lists_and_objects(tmp_path):
    rows = {
        "x": [[0.5, 1.0], [2.0, 3.5]],
        "candidates": [{"cat": 0.5, "dog": 0.5}, {"cat": 1.0, "dog": None}],
    }
    path = tmp_path / "clean.csv"
    write_cleaned_table(path, pl.DataFrame(rows), separator=",", header=True)
    data = read_candidates(path)
    assert data.features.tolist() == [[0.5, 1.0], [2.0, 3.5]]
    assert data.candidates.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("form", "times"),
    [
        ("%a, %d %b %Y %H:%M:%S GMT", [7200, 3600]),
        ("%d/%b/%Y:%H:%M:%S +0100", [3600, 0]),
        ("%d %b %Y %H:%M:%S +0000", [7200, 3600]),
        ("%a %b %d %H:%M:%S +0000 %Y", [7200, 3600]),
        ("%a %b %d %H:%M:%S %Y", [7200, 3600]),
        ("%b %d, %Y %I:%M %p", [7200, 3600]),
    ],
)
def test_times_as_servers_write_them(tmp_path, form, times):
    path = tmp_path / "log.csv"
    stamps = [datetime(1970, 1, 1, hour).strftime(form) for hour in (2, 1)]
    path.write_text(
        "".join(["user,item,time\n", *(f'u,i{n},"{s}"\n' for n, s in enumerate(stamps))])
    )
    data = read_clicks(path)
    assert data.timestamps.tolist() == sorted(times)
    assert data.item_ids[data.histories[0]].tolist() == ["i1", "i0"]


def test_a_time_of_the_day_beside_its_date_is_told_of():
    clicks = {
        "user": ["a", "a"],
        "item": ["x", "y"],
        "date": ["2026-02-03"] * 2,
        "time": ["10:00", "11:30"],
    }
    with pytest.raises(DataError, match=r"'time' holds '10:00', which is a time .* --time date"):
        read_clicks(pl.DataFrame(clicks))
    assert len(read_clicks(pl.DataFrame(clicks), time="date").histories) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<!DOCTYPE html>\n<html><body>Please, log in</body></html>", "a page of HTML"),
        (b"version https://git-lfs.github.com/spec/v1\nsize 12\n", "a pointer of Git LFS"),
        (b"PK\x03\x04\x14\x00\x00\x00", r"a workbook or an archive; name it .xlsx or .zip"),
        (b"\x1f\x8b\x08\x00\x00", "gzip or Parquet"),
        (b"%PDF-1.4\n%\xe2\xe3", "a PDF"),
    ],
)
def test_files_of_another_kind_are_called_what_they_are(tmp_path, content, said):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"rows.csv is no table of text but {said}"):
        as_read(path)


def test_lines_that_end_in_a_mark_which_the_header_lacks(tmp_path):
    header, *lines = pl.DataFrame(slides()).write_csv().splitlines()
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([header, *(f"{line}," for line in lines), ""]))
    data, _ = as_read(path)
    assert data.feature_names == ("f0", "f1")
    path.write_text("user,item,time\nu,a,2,\nu,b,1,\nv,a,3,\n")
    for clicks in (read_clicks(path), convert_clicks(path, tmp_path / "log")):
        assert [clicks.item_ids[each].tolist() for each in clicks.histories] == [["b", "a"], ["a"]]


def test_numbers_of_nines_are_told_of_and_printed_minuses_are_minuses(tmp_path):
    columns = slides()
    columns["f0"] = [-999 if n % 9 == 0 else value for n, value in enumerate(columns["f0"])]
    columns["f1"] = [str(value).replace("-", "−") for value in columns["f1"]]
    columns["age"] = [97 + n % 3 for n in range(len(columns["f0"]))]
    path = tmp_path / "rows.csv"
    pl.DataFrame(columns, strict=False).write_csv(path)
    data, said = as_read(path)
    assert data.feature_names == ("f0", "f1", "age")
    assert (data.bags.objects[:, 1] < 0).any()
    assert "'f0' holds -999 in 18 rows, far from all other numbers" in said
    assert "'age' holds" not in said


@pytest.mark.parametrize(
    ("cells", "items"),
    [
        (["a > b > c", "b > a", "c > a"], ["a", "b", "c"]),
        (["a -> b", "b -> a", "c -> a"], ["a", "b", "c"]),
        (["Red Shoe, Blue Hat", "Blue Hat, Red Shoe"], ["Blue Hat", "Red Shoe"]),
        (['["Shoe, red", "Hat"]', '["Hat"]'], ["Hat", "Shoe, red"]),
        (["a b c", "b a", "c a"], ["a", "b", "c"]),
        (["Red Shoe", "Red Hat", "Blue Shoe"], ["Blue Shoe", "Red Hat", "Red Shoe"]),
    ],
)
def test_items_of_several_words_in_lists_stay_whole(cells, items):
    users = [f"u{number}" for number in range(len(cells))]
    assert read_clicks(pl.DataFrame({"user": users, "items": cells})).item_ids.tolist() == items


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time": [1_700_000_000_000, 1_700_000_100] * 6}, "6 of 12 times are milliseconds"),
        ({"time": [0, *range(1_700_000_000, 1_700_000_011)]}, "1 of 12 times are 0 or less"),
        ({"user": ["1.00001E+12", "1.00002E+12"] * 6}, "ids of users look as '1.00001E+12'"),
        ({"user": ["5e8", "1e3"] * 6}, None),
    ],
)
def test_times_of_two_units_and_shortened_ids_are_told_of(change, said):
    told = []
    columns = {
        "user": ["u", "v"] * 6,
        "item": list("abcdef") * 2,
        "time": range(1_700_000_000, 1_700_000_012),
    }
    read_clicks(pl.DataFrame({**columns, **change}), report=told.append)
    assert any((said or "ids of users") in each for each in told) == (said is not None)


@pytest.mark.parametrize("mark", ["\n", "\t"])
def test_lines_and_tabs_in_a_cell_part_labels(tmp_path, mark):
    path = tmp_path / "rows.csv"
    pl.DataFrame(candidate_rows([mark.join(each) for each in candidate_sets()])).write_csv(path)
    assert as_read(path)[0].class_names == sorted(NAMES)


def test_labels_that_are_doubted_are_told_of_and_any_is_no_label():
    sets = candidate_sets()
    cells = ["|".join(each) + "?" * (number % 4 == 0) for number, each in enumerate(sets)]
    said = []
    read_candidates(pl.DataFrame(candidate_rows(cells)), report=said.append)
    assert any("took 'cat?' as a label beside 'cat' (4 such)" in each for each in said)
    cells = ["|".join(each) if number % 4 else "any" for number, each in enumerate(sets)]
    data = read_candidates(pl.DataFrame(candidate_rows(cells)))
    assert data.class_names == sorted(NAMES)
    assert data.candidates[0].all()


def test_a_number_of_each_row_keeps_no_text_from_being_read(tmp_path):
    path = tmp_path / "texts.csv"
    sets = candidate_sets()
    texts = [f"the {each[0]} says hello number {n % 7} today" for n, each in enumerate(sets)]
    rows = {"id": range(len(sets)), "text": texts, "gold": [each[0] for each in sets]}
    pl.DataFrame({**rows, "candidates": [";".join(each) for each in sets]}).write_csv(path)
    data, said = as_read(path)
    assert "words of column 'text' as features" in said
    assert data.truth is not None


def test_ticks_are_advised_to_be_candidates(tmp_path):
    path = tmp_path / "ticks.csv"
    sets = candidate_sets()
    ticks = {name: ["x" if name in each else "" for each in sets] for name in NAMES}
    pl.DataFrame({"x": np.linspace(0, 1, len(sets)), **ticks}).write_csv(path)
    with pytest.raises(DataError, match="say --candidates 'cat,dog,fox,owl'"):
        guess_setting(str(path))


def test_who_says_that_a_file_holds_bags_need_not_name_their_columns(tmp_path, capsys):
    columns = slides()
    frame = pl.DataFrame({**columns, "photo": columns["slide"], "finding": columns["diagnosis"]})
    path = tmp_path / "photos.csv"
    frame.drop("slide", "diagnosis").write_csv(path)
    found = load_data(str(path), DataOptions(setting="mil"))
    assert (found.setting.name, len(found.dataset.bags)) == ("mil", 40)
    assert "'photo' as the bag" in capsys.readouterr().err
    with pytest.raises(MissingColumnError, match="looks like the user"):
        load_data(str(path), DataOptions(setting="rs"))


def test_methods_of_another_setting_are_told_which():
    with pytest.raises(ParameterError, match="method for mil data, not for pll: say --setting mil"):
        find_method("max-matching-mipl", "pll")


def test_features_in_other_capitals_are_named_where_a_model_misses_them():
    frame = pl.DataFrame(slides()).rename({"f0": " F0 "})
    with pytest.raises(DataError, match=r"learned from: 'f0'; rename ' F0 ' to 'f0'"):
        read_bags(frame, feature_names=("f0", "f1"))


def test_a_folder_of_files_that_are_no_bags_names_the_kinds_that_are(tmp_path):
    (tmp_path / "bags").mkdir()
    (tmp_path / "bags/slide_0.log").write_text("1 2\n3 4\n")
    (tmp_path / "labels.csv").write_text("slide,label\nslide_0,yes\n")
    with pytest.raises(DataError, match=r"holds no bags of a kind that is read \(.h5, "):
        read_bags(tmp_path / "bags", labels=tmp_path / "labels.csv")
