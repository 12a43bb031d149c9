"""`groupnoise compare` on a file of one's own: a table, JSON, a page, and a command to copy."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    """Bags of three rows; a positive bag has one row far to the right."""
    generator = np.random.default_rng(0)
    lines = ["bag;label;x;y"]
    for bag in range(40):
        rows = generator.normal(size=(3, 2))
        rows[0, 0] += 4.0 * (bag % 2)
        label = ("no", "yes")[bag % 2]
        lines += [f"b{bag};{label};{row[0]:.4f};{row[1]:.4f}" for row in rows]
    path = tmp_path_factory.mktemp("bags") / "bags.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


WORDS = ("--setting", "mil", "--methods", "milr,gicf", "--splits", "2")


def test_the_table_ends_with_a_command_that_runs(groupnoise, bags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said, _ = groupnoise("compare", str(bags), *WORDS, "--page", "page.html")
    assert code == 0
    assert "bag AUROC by what needs no truth, mean over 2 splits" in said
    columns = said.splitlines()[1]
    assert columns.split("  ")[0] == "method"
    assert "95 % interval" in columns
    assert "splits" in columns
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    command = next(line for line in said.splitlines() if line.startswith("groupnoise fit"))
    assert command in page
    code, _, error = groupnoise(*shlex.split(command)[1:], "--quiet")
    assert code == 0, error


def test_json_has_every_split_and_the_leader(groupnoise, bags):
    code, said, _ = groupnoise("compare", str(bags), *WORDS, "--json")
    assert code == 0
    found = json.loads(said)
    assert found["leader"] == found["methods"][0]["method"]
    assert found["winner"] in (None, found["leader"])
    assert {len(each["splits"]) for each in found["methods"]} == {2}


def test_one_method_alone_is_not_called_the_best(groupnoise, bags):
    _, said, _ = groupnoise("compare", str(bags), *WORDS, "--budget", "0.001s")
    assert "milr" in said
    assert "nothing to compare it with" in said
    assert "best" not in said
    assert "gicf would begin after that, so give more, such as --budget" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--methods", "milr,nothing"), "nothing"),
        (("--budget", "soon"), "soon"),
        (("--share", "1.5"), "share"),
    ],
)
def test_bad_options_get_one_sentence(groupnoise, bags, words, sentence):
    code, _, said = groupnoise("compare", str(bags), "--setting", "mil", *words)
    assert code == 2
    assert sentence in said
    assert "Traceback" not in said


def test_the_command_of_a_baseline_scales_as_it_was_compared(groupnoise, bags):
    code, said, _ = groupnoise("compare", str(bags), *WORDS, "--json")
    assert code == 0
    assert "--method" in json.loads(said)["command"]
    assert "-p scaling=standard" in json.loads(said)["command"]


@pytest.mark.slow
def test_fit_leaves_the_method_to_held_out_bags_and_says_which(groupnoise, bags, tmp_path):
    model = str(tmp_path / "model")
    words = ("--setting", "mil", "--method", "auto", "--budget", "20s")
    code, said, error = groupnoise("fit", str(bags), *words, "-o", model)
    assert code == 0, error
    assert "was taken: bag AUROC" in said
    assert "split 1: milr" in error
    code, said, error = groupnoise("evaluate", model, str(bags), "--setting", "mil")
    assert code == 0, error


@pytest.mark.slow
def test_a_baseline_that_is_ahead_beyond_chance_is_trained_and_named(groupnoise, tmp_path):
    """Too few bags to compare settings on leave ours linear; a disc within a ring is not."""
    generator = np.random.default_rng(0)
    lines = ["bag,label,truth,x,y"]
    for bag in range(12):
        radius = np.where(np.arange(40) < 20 * (bag % 2), 0.5, 3.0)
        angle = generator.uniform(0, 2 * np.pi, 40)
        for r, a in zip(radius, angle, strict=True):
            x, y = r * np.cos(a), r * np.sin(a)
            lines.append(f"b{bag},{bag % 2},{int(r < 1)},{x:.3f},{y:.3f}")
    data, model = tmp_path / "discs.csv", str(tmp_path / "model")
    data.write_text("\n".join(lines), encoding="utf-8")
    code, said, error = groupnoise("fit", str(data), "--method", "auto", "-o", model)
    assert code == 0, error
    taken = said.split(" was taken: instance AUROC")[0].splitlines()[-1]
    assert taken in ("milr", "mi-net", "attention-mil", "instance-lr")
    assert "on 3 splits, by true labels of the training part; this package's max-matching" in said
    assert f"{taken} on discs: saved to" in said
    code, said, error = groupnoise("info", model)
    assert code == 0, error
    assert "max-matching" not in said


def test_parameters_need_a_method_that_is_named(groupnoise, bags, tmp_path):
    words = ("--setting", "mil", "--method", "auto", "-p", "dim=3", "-o", str(tmp_path / "model"))
    code, _, error = groupnoise("fit", str(bags), *words)
    assert code == 2
    assert "name a method" in error
