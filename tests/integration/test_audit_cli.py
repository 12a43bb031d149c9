"""`groupnoise audit` as a user runs it: in a process of its own, on files of their own."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from groupnoise.audit.evidence import picture_of_array
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import make_shop
from groupnoise.io import open_groups, write_groups


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_bags_are_audited_by_folds_and_the_cleaned_copy_can_be_fitted(groupnoise, tmp_path):
    write_groups(tmp_path / "bags", load_digit_bags(80, random_state=1))
    options = ["-o", "out", "--clean", "clean", "--folds", "2", "-p", "max_epochs=10"]
    finished = subprocess.run(
        [sys.executable, "-m", "groupnoise", "audit", "bags", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    assert "trained on the other 1 of 2 folds" in finished.stdout
    assert len(read_csv(tmp_path / "out/groups.csv")) == 80
    summary = json.loads((tmp_path / "out/summary.json").read_text(encoding="utf-8"))
    listed = read_csv(tmp_path / "out/lists/wrong_target.csv")
    assert len(listed) == summary["wrong_target"]
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "groupnoise audit bags" in page
    n_cards = page.count('<figure class="case" data-kind="wrong_target"')
    assert n_cards == min(summary["wrong_target"], 20)
    assert not any(outside in page for outside in ("<link", "http:", "https:", 'src="/'))
    cleaned = open_groups(tmp_path / "clean")
    assert len(cleaned.bags) == 80 - summary["wrong_target"]
    assert "the cleaned copy is in clean; it lacks" in finished.stdout
    assert groupnoise("fit", "clean", "-o", "model", "-q", "-p", "max_epochs=1")[0] == 0


@pytest.mark.slow
def test_a_model_judges_rows_of_a_file_shown_with_its_pictures_and_text(groupnoise, tmp_path):
    digits = load_digit_candidates(part="test", random_state=0)
    (tmp_path / "pictures").mkdir()
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1v1z"/></svg>'
    with (tmp_path / "digits.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        columns = [f"f{number}" for number in range(64)]
        writer.writerow(["candidates", *columns, "picture", "remark"])
        for row, features in enumerate(digits.features):
            (tmp_path / f"pictures/{row}.svg").write_text(svg, encoding="utf-8")
            names = "|".join(str(label) for label in np.flatnonzero(digits.candidates[row]))
            writer.writerow([names, *features, f"pictures/{row}.svg", f"seen on day {row}"])
    fitted, _, _ = groupnoise(
        "fit", "digits.csv", "--setting", "pll", "-o", "model", "-q", "-p", "max_epochs=2",
    )  # fmt: skip
    assert fitted == 0
    code, said, _ = groupnoise(
        "audit", "digits.csv", "--setting", "pll", "--model", "model", "--tables", "json",
        "--images", "picture", "--text", "remark", "-o", "out", "-q",
    )  # fmt: skip
    assert code == 0
    assert "may have memorised" in said
    worst = json.loads((tmp_path / "out/lists/droppable_candidate.json").read_text("utf-8"))
    scores = [record["noise"] for record in worst]
    assert scores == sorted(scores, reverse=True)
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") >= 20
    assert "seen on day" in page


def test_a_second_audit_says_that_it_replaces_the_first(groupnoise, tmp_path):
    write_groups(tmp_path / "bags", load_digit_bags(40, random_state=1))
    words = ("audit", "bags", "--folds", 2, "-p", "max_epochs=1", "-q")
    _, first, _ = groupnoise(*words)
    assert first.endswith("tables and report.html are in runs/audit\n")
    _, second, _ = groupnoise(*words)
    told = "tables and report.html are in runs/audit; they replace those of an earlier audit\n"
    assert second.endswith(told)


def test_clicks_are_shown_with_titles_of_an_item_table(groupnoise, tmp_path):
    shop = make_shop(120, 40, random_state=0)
    write_groups(tmp_path / "log", shop)
    lines = [f"{item}\ttitle of {item}" for item in range(0, 40, 2)]
    (tmp_path / "items.tsv").write_text("\n".join(["item\ttitle", *lines]), encoding="utf-8")
    code, _, _ = groupnoise(
        "audit", "log", "--items", "items.tsv", "--text", "title", "--folds", 2, "-o", "out",
        "-p", "max_epochs=1", "-p", "dim=8", "--tables", "parquet", "-q",
    )  # fmt: skip
    assert code == 0
    assert "title of " in (tmp_path / "out/report.html").read_text(encoding="utf-8")
    import polars as pl

    assert pl.read_parquet(tmp_path / "out/objects.parquet").height == shop.histories.n_objects


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tables", "xlsx"], "--tables must be one of 'csv', 'parquet', 'json'"),
        (["--folds", "1"], "--folds must be a whole number of at least 2"),
        (["--output", "taken"], "taken is a file"),
        (["--clean", "taken"], "taken exists already"),
        (["--images", "picture"], "give it with --setting"),
        (["--items", "taken"], "--items needs --text or --images"),
        (["--model", "nowhere"], "there is no folder nowhere; give"),
        (["-p", "epochs=3"], "did you mean 'max_epochs'?"),
    ],
)
def test_bad_arguments_end_with_one_sentence_and_exit_code_2(
    arguments, sentence, groupnoise, tmp_path
):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    code, _, complaint = groupnoise("audit", "digit-bags", *arguments)
    assert code == 2
    assert sentence in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_column_that_is_not_there_is_named(groupnoise, tmp_path):
    (tmp_path / "bags.csv").write_text("bag,label,x\n1,a,0\n1,a,2\n2,b,1\n", encoding="utf-8")
    words = ("audit", "bags.csv", "--setting", "mil", "--images", "photo")
    code, _, complaint = groupnoise(*words)
    assert code == 2
    assert (
        "bags.csv has no column 'photo' to show; its columns are 'bag', 'label', 'x'." in complaint
    )


def test_arrays_are_drawn_as_pictures_that_any_reader_opens(tmp_path):
    import base64
    import io

    image = pytest.importorskip("PIL.Image")
    drawn = picture_of_array(np.array([[0.0, 1.0, 0.5]]))
    opened = image.open(io.BytesIO(base64.b64decode(drawn.partition(",")[2])))
    assert opened.size == (3, 1)
    assert list(opened.getchannel("A").tobytes()) == [0, 255, 128]


def test_users_are_named_by_their_own_ids_and_bots_are_told_of(groupnoise, tmp_path):
    shop = make_shop(40, 30, random_state=0)
    rows = [
        (f"visitor-{user}", shop.item_ids[item], 1_770_000_000 + 86_400 * user + 901 * place)
        for user, history in enumerate(shop.histories)
        for place, item in enumerate(history.tolist())
    ]
    rows += [("robot", shop.item_ids[n % 30], 1_770_000_000 + n) for n in range(400)]
    with (tmp_path / "log.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("user", "item", "time"), *rows])
    code, said, _ = groupnoise(
        "audit", "log.csv", "--setting", "rs", "--folds", "2", "-p", "max_epochs=1", "-p", "dim=4",
        "-o", "out", "-q", "--clean", "clean.csv",
    )  # fmt: skip
    assert code == 0
    assert "1  Users that look like bots or repeat-clickers" in said
    assert "it keeps the clicks of 1 user that looks like a bot; --drop-users drops them" in said
    again = ["audit", "log.csv", "--folds", "2", "-p", "max_epochs=1", "-p", "dim=4", "-q"]
    told = groupnoise(*again, "-o", "more", "--clean", "people.csv", "--drop-users")[1]
    assert "stray clicks; --drop-clicks drops them too" in told
    assert len(read_csv(tmp_path / "people.csv")) == len(rows) - 400
    code, _, refused = groupnoise("audit", "log.csv", "-o", "no", "--drop-clicks")
    assert code == 2
    assert "--drop-clicks is for the cleaned copy" in refused
    assert "robot: 400 clicks (usual:" in said
    (robot,) = read_csv(tmp_path / "out/lists/suspicious_user.csv")
    assert (robot["source"], robot["in_a_minute"]) == ("robot", "60")
    users = {row["source"] for row in read_csv(tmp_path / "out/lists/stray_click.csv")}
    assert users <= {"robot", *(f"visitor-{user}" for user in range(40))}
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "60 within a minute" in page
    assert "<b>user visitor-" in page


def test_few_clicks_of_a_log_without_noise_are_called_stray(groupnoise, tmp_path):
    """Three kinds of items, and everybody keeps to one: no click is stray."""
    rng = np.random.default_rng(3)
    rows = [
        (user, int(item), when)
        for user in range(150)
        for when, item in enumerate(rng.choice(np.arange(user % 3, 60, 3), rng.integers(2, 12)))
    ]
    with (tmp_path / "log.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("user", "item", "time"), *rows])
    code, _, _ = groupnoise(
        "audit", "log.csv", "--folds", "2", "-o", "out", "-q", "-p", "encoder=null",
    )  # fmt: skip
    assert code == 0
    summary = json.loads((tmp_path / "out/summary.json").read_text(encoding="utf-8"))
    assert summary["stray_click"] < 0.15 * summary["objects"]
