"""What `fit` says before, after and where it is told to be quiet."""

import pytest

LOG = ["user,item,time"] + [
    f"u{user},i{(user % 3) * 4 + (user // 3 + step) % 4},{step}"
    for user in range(60)
    for step in range(4)
]
QUICK = ("-p", "max_epochs=1", "-p", "dim=4")


@pytest.fixture
def log(command, tmp_path):
    (tmp_path / "clicks.csv").write_text("\n".join(LOG))
    return "clicks.csv"


def test_quiet_leaves_one_line_of_what_was_decided(command, log):
    whole = command("fit", log, "-o", "model", *QUICK)
    assert "Chosen: " in whole.out
    assert "settings, scored by" in whole.out
    quiet = command("fit", log, "-o", "other", *QUICK, "-q")
    decided, saved = quiet.out.splitlines()
    assert decided.startswith("chosen: ")
    assert "; held-out score: " in decided
    assert "popularity 0." in decided
    assert saved.startswith("max-matching on clicks: saved to other")


def test_a_model_that_will_be_replaced_is_named_before_the_data_is_read(command, log):
    words = ("fit", log, "-o", "model", "--method", "popularity")
    assert "holds a model" not in command(*words).err
    said = command(*words).err.splitlines()
    assert said[0].startswith("model holds a model, which this one replaces when its training")
    before = command("info", "model").out
    said = command("fit", "missing.csv", "-o", "model", code=2).err.splitlines()
    assert said[0].startswith("model holds a model")
    assert command("info", "model").out == before


def test_fit_says_what_it_did_with_a_table_of_items(command, log, tmp_path):
    rows = [f"i{item},{'abcd'[item // 4]},{item}" for item in range(14)]
    (tmp_path / "items.csv").write_text("\n".join(["item,kind,size", *rows]))
    said = command("fit", log, "-o", "model", "--items", "items.csv", *QUICK, "-q").out
    assert "items.csv: learned from 'kind', 'size' where items belong" in said
    assert "2 items of 14, without a click, placed by it" in said
    assert "trained on clicks.csv, 2" in command("info", "model").out
    (tmp_path / "more.csv").write_text("user,item,time\nv,i1,1\nv,i12,2\n")
    said = command("fit", "more.csv", "--from", "model", "-o", "next", "--items", "items.csv").out
    assert "1 item of 14, without a click, placed by it" in said
    assert "2 new clicks on model: its 14 items stay" in said
    assert "updated with more.csv, 2" in command("info", "next").out


def test_a_file_that_is_not_there_is_told_before_its_options(command):
    said = command("fit", "none.csv", "--truth", "true", "-o", "model", code=2).err
    assert "there is no file" in said
    assert "known by name" not in said
