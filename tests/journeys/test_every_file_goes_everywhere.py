"""Every file that `fit` reads is read by `evaluate`, `predict`, `audit` and `data describe`."""

import json

import pytest

from journeys.own_files import CLASSES, FILES, N_BAGS, N_ROWS, N_USERS, QUICK, bag_rows, read_csv

N_ANSWERS = {"mil": len(bag_rows()), "pll": N_ROWS}
FACTS = {"mil": ("bags", N_BAGS), "pll": ("rows", N_ROWS), "rs": ("users", N_USERS)}


@pytest.mark.parametrize(("setting", "shape"), list(FILES), ids=[f"{a}-{b}" for a, b in FILES])
def test_what_fit_reads_every_command_reads(command, tmp_path, setting, shape):
    path, words = FILES[setting, shape](tmp_path)
    file = [path.name, "--setting", setting, *words]
    fitted = command("fit", *file, "-o", "model", "-q", *QUICK[setting])

    described = json.loads(command("data", "describe", *file, "--json").out)
    name, count = FACTS[setting]
    assert described["facts"][name] == count
    if setting != "rs":
        assert described["facts"]["classes"] == len(CLASSES)
        assert described["facts"]["features"] == 4

    judged = command("evaluate", "model", *file, "--json")
    assert json.loads(judged.out)["on"] == "held-out"
    answered = command("predict", "model", *file, "-o", "answers.csv")
    answers = read_csv(tmp_path / "answers.csv")
    if setting == "rs":
        assert {answer["user"] for answer in answers} == {f"u{user:02d}" for user in range(N_USERS)}
    else:
        assert len(answers) == N_ANSWERS[setting]
        assert {answer["label"] for answer in answers} <= set(CLASSES)
    audited = command("audit", *file, "--model", "model", "-o", "audit", "-q")
    assert (tmp_path / "audit/report.html").is_file()
    for said in (fitted, judged, answered, audited):
        # What was guessed is said in one line, the same by every command.
        assert len(said.err.strip().splitlines()) <= 1, said.err


@pytest.mark.parametrize(
    ("setting", "shape"), [("mil", "other_names"), ("pll", "other_names"), ("rs", "other_names")]
)
def test_a_model_knows_its_setting_and_its_columns(command, tmp_path, setting, shape):
    path, words = FILES[setting, shape](tmp_path)
    command("fit", path.name, "--setting", setting, *words, "-o", "m", "-q", *QUICK[setting])
    asked = command("evaluate", "m", path.name, "--setting", setting, *words).out
    assert command("evaluate", "m", path.name).out == asked
    command("predict", "m", path.name, "-o", "answers.csv")
    command("audit", path.name, "--model", "m", "-o", "audit", "-q")


def test_a_converted_folder_is_the_file_it_was(command, tmp_path):
    path, words = FILES["mil", "csv"](tmp_path)
    command("fit", path.name, "--setting", "mil", "-o", "m", "-q", *QUICK["mil"])
    asked = command("evaluate", "m", path.name, "--setting", "mil").out
    command("data", "convert", path.name, "stored", "--setting", "mil", *words)
    assert command("evaluate", "m", "stored").out.split("\n")[1:] == asked.split("\n")[1:]
