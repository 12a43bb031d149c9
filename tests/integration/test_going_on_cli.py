"""`groupnoise fit --from` over real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from click_journeys import QUICK, run
from groupnoise.exceptions import GroupNoiseError
from groupnoise.io.folders.model_files import load_model
from groupnoise.io.folders.training_record import read_training_record


def write_log(path: Path, clicks: list[tuple[str, str, int]]) -> Path:
    rows = [f"{user},{item},{time}" for user, item, time in clicks]
    path.write_text("user,item,time\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with yesterday's log and model, and today's log with a new item and user."""
    folder = tmp_path_factory.mktemp("shop")
    generator = np.random.default_rng(0)
    clicks = []
    for user in range(60):
        own = generator.choice(np.arange(user % 2, 20, 2), size=5, replace=False)
        clicks += [(f"u{user}", f"i{item}", time) for time, item in enumerate(own.tolist())]
    log = write_log(folder / "yesterday.csv", clicks)
    write_log(
        folder / "today.csv",
        [
            ("u0", "i2", 10),
            ("u0", "new", 11),
            ("u2", "i4", 10),
            ("u2", "new", 12),
            ("u99", "i6", 9),
        ],
    )
    run("fit", log, "--setting", "rs", "-o", folder / "model", "--validation", 0, *QUICK)
    return folder


@pytest.mark.parametrize("old", [(), ("--old", "yesterday.csv")])
def test_a_night_is_learned(
    shop: Path, old: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    before = load_model(shop / "model")
    said = run("fit", "today.csv", "--from", "model", *old, "-o", tmp_path / "model")
    assert "5 new clicks" in said
    assert f"{before.n_items_} items became {before.n_items_ + 1}" in said
    after = load_model(tmp_path / "model")
    assert after.popularity_.sum() == before.popularity_.sum() + 5
    assert after.items_[-1] == "new"
    record, first = read_training_record(tmp_path / "model"), read_training_record("model")
    assert record is not None
    assert first is not None
    assert record.earlier == [first.fingerprint]
    assert record.fingerprint != first.fingerprint
    with pytest.raises(GroupNoiseError, match=r"trained on all of today.csv, nothing was held out"):
        run("evaluate", tmp_path / "model", "today.csv")
    assert "2 histories, 2 of them trained on" in run(
        "evaluate", tmp_path / "model", "today.csv", "--on", "all"
    )


def test_what_is_held_out_of_a_night_and_before_is_what_evaluate_scores(
    shop: Path, tmp_path: Path
) -> None:
    yesterday, today, first = shop / "yesterday.csv", tmp_path / "today.csv", tmp_path / "first"
    clicks = [(f"u{user}", f"i{item}", 10 + item) for user in range(20) for item in (2, 4, 6)]
    write_log(today, clicks)
    run("fit", yesterday, "--setting", "rs", "-o", first, "--validation", 0.2, *QUICK)
    before = read_training_record(first)
    assert before is not None
    for old in ((), ("--old", yesterday)):
        model = tmp_path / f"model{len(old)}"
        said = run("fit", today, "--from", first, *old, "-o", model, "--validation", 0.5)
        assert "the last click of 10 of 20 histories held out, for `groupnoise eval" in said
        assert "what was held out before stays so" in said
        assert "50 new clicks" in said
        assert "today: 10 histories, held out of training" in run("evaluate", model, today)
        assert "yesterday: 12 histories, held out of training" in run("evaluate", model, yesterday)
        counted = load_model(model).popularity_.sum()
        assert counted == load_model(first).popularity_.sum() + 50
        again = run("fit", today, "--from", model, "-o", tmp_path / "again")
        assert "has learned" in again
        with pytest.raises(GroupNoiseError, match="nothing was held out"):
            run("evaluate", tmp_path / "again", today)
    # Another log of before may hold what was held out, so that nothing is said to be.
    write_log(tmp_path / "other.csv", [("u1", "i1", 1), ("u1", "i3", 2), ("u1", "i5", 3)])
    run("fit", today, "--from", first, "--old", tmp_path / "other.csv", "-o", tmp_path / "other")
    assert "held out" not in run("evaluate", tmp_path / "other", yesterday)


def test_a_model_may_be_replaced_and_items_forgotten(shop: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    run("fit", shop / "today.csv", "--from", shop / "model", "-o", model)
    gone = tmp_path / "gone.txt"
    gone.write_text("i3\ni5\nI7\n")
    words = ("--decay", 0.9, "--forget-items", gone, "-o", model)
    with pytest.warns(UserWarning, match="1 of the 3 items to be forgotten are not known.*'I7'"):
        said = run("fit", shop / "today.csv", "--from", model, *words)
    assert "2 forgotten" in " ".join(said.split())
    left = load_model(model).items_.tolist()
    assert "i3" not in left
    assert "new" in left


def test_a_log_that_was_learned_already_is_warned_of(shop: Path, tmp_path: Path) -> None:
    yesterday, today, model = shop / "yesterday.csv", shop / "today.csv", tmp_path / "model"
    words = ("--from", shop / "model", "-o", model)
    assert "has learned" not in run("fit", today, *words, "--old", yesterday)
    for log in (yesterday, today):
        said = run("fit", log, "--from", model, "-o", tmp_path / "again")
        assert f"{model} has learned {log} already" in " ".join(said.split())


def test_items_told_by_features_come_with_a_night(shop: Path, tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    rows = [f"i{n},{'even' if n % 2 == 0 else 'odd'}" for n in range(20)]
    table.write_text("\n".join(["item,category", *rows, "new,even", "cold,odd"]) + "\n")
    words = ("--from", shop / "model", "--items", table, "-o", tmp_path / "model")
    run("fit", shop / "today.csv", *words)
    assert "cold" in load_model(tmp_path / "model").items_.tolist()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "model", "-p", "dim=3"), "--from keeps the settings of the model"),
        (("--decay", "0.5"), "go with --from, a fitted model"),
        (("--from", "model", "--forget-items", "none.txt"), "none.txt cannot be read as lines"),
        (("--from", "counted"), "--from goes with max-matching on clicks"),
    ],
)
def test_what_cannot_go_on_is_said(
    shop: Path, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    if "counted" in words:
        run("fit", "yesterday.csv", "--setting", "rs", "--method", "popularity", "-o", "counted")
    with pytest.raises(GroupNoiseError, match=message):
        run("fit", "today.csv", "--setting", "rs", *words, "-o", "after")


def test_a_log_of_another_shop_is_refused(shop: Path, tmp_path: Path) -> None:
    other = write_log(tmp_path / "other.csv", [("u", "x1", 1), ("u", "x2", 2)])
    with pytest.raises(GroupNoiseError, match="none of the 2 items of these clicks is known"):
        run("fit", other, "--from", shop / "model", "-o", tmp_path / "after")
    assert not (tmp_path / "after").exists()


def test_another_log_than_that_of_before_is_refused_or_questioned(
    shop: Path, tmp_path: Path
) -> None:
    def update_model(new: Path, old: Path) -> str:
        return run("fit", new, "--from", shop / "model", "--old", old, "-o", tmp_path / "model")

    yesterday, today = shop / "yesterday.csv", shop / "today.csv"
    foreign = write_log(tmp_path / "foreign.csv", [("u1", f"x{item}", item) for item in range(9)])
    with pytest.raises(GroupNoiseError, match=r"foreign.csv is not the earlier log: .* yesterday"):
        update_model(today, foreign)
    strange = [(f"v{user}", f"i{item}", item) for user in range(30) for item in (2, 4, 7)]
    said = update_model(today, write_log(tmp_path / "strange.csv", strange))
    assert "strange.csv is probably not the earlier log" in said
    assert "learned yesterday, 60 histories, and none of these is in it" in said
    # The log of before, grown by clicks and users, is what it was.
    grown = tmp_path / "grown.csv"
    grown.write_text(yesterday.read_text() + "u3,i4,77\nu200,i4,78\nu200,i5,79\n")
    for log in (yesterday, grown):
        assert "the earlier log" not in update_model(today, log)
    assert "has learned most of" in update_model(grown, yesterday)
    both = tmp_path / "both.csv"
    both.write_text(yesterday.read_text() + today.read_text().partition("\n")[2])
    assert "ends with the clicks of" in update_model(today, both)
    assert "ends with the clicks of" not in update_model(today, yesterday)


def test_ids_that_lost_their_zeros_are_told_of(tmp_path: Path) -> None:
    clicks = [
        (f"u{user}", f"{(user + time) % 12:03d}", time) for user in range(20) for time in range(4)
    ]
    log = write_log(tmp_path / "log.csv", [*clicks, ("u0", "A", 9), ("u1", "A", 9)])
    run("fit", log, "-o", tmp_path / "model", "--validation", 0, *QUICK)
    bare = [(user, item.lstrip("0") or "0", time + 10) for user, item, time in clicks]
    night = write_log(tmp_path / "night.csv", [*bare, ("u2", "A", 30)])
    said = run("fit", night, "--from", tmp_path / "model", "-o", tmp_path / "next")
    assert "such as '1', which the model calls '001', lost the zeros in front" in said
    assert "items of their own" in said
    told = run("predict", tmp_path / "model", night, "-o", tmp_path / "items.csv")
    assert "lost the zeros in front" in told
    table = tmp_path / "items.csv"
    table.write_text("item,title\nA,Ape\n" + "".join(f"{n},T{n}\n" for n in range(12)))
    told = run("export", tmp_path / "model", "-o", tmp_path / "artifact", "--items", table)
    assert "such as '1', which the model calls '001', lost the zeros in front" in told
    rows = [f"{n:03d},{'ab'[n % 2]}" for n in range(12)]
    table.write_text("\n".join(["item,kind", *rows, "11,b", "A,a"]) + "\n")
    told = run("fit", log, "-o", tmp_path / "more", "--items", table, *QUICK)
    assert "rows of unknown ids count as further items" in told
    (tmp_path / "gone.txt").write_text("1\n2\nA\n")
    recall = ["recall", tmp_path / "artifact", "--histories", log, "-o", tmp_path / "out.csv"]
    told = run(*recall, "--deny", tmp_path / "gone.txt")
    assert "2 of 3 ids unknown to the model, such as '1'" in told
    (tmp_path / "gone.txt").write_text("001\nA\n2\n")
    assert "unknown to the model" not in run(*recall, "--deny", tmp_path / "gone.txt")


def test_days_that_overlap_are_told_of(shop: Path, tmp_path: Path) -> None:
    clicks = [("u0", "i2", 4), ("u0", "i4", 10), ("u3", "i5", 3), ("u3", "i7", 11)]
    log = write_log(tmp_path / "overlap.csv", clicks)
    words = ("--from", shop / "model", "-o", tmp_path / "model")
    said = " ".join(run("fit", log, *words).split())
    assert "2 of 4 clicks" in said
    assert "are not later than the newest" in said
    assert "not later" not in run("fit", shop / "today.csv", *words)
    later = write_log(tmp_path / "later.csv", [("u0", "i6", 12), ("u0", "i8", 11)])
    said = run("fit", later, "--from", tmp_path / "model", "-o", tmp_path / "next")
    assert "2 of 2 clicks" in " ".join(said.split())
