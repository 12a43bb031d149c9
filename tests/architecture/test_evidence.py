"""Every claim of the page of evidence stands in the result file it names."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def claims(title="## Claims"):
    """Rows of the table of claims, or of losses: what, figures, file."""
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    table = text.partition(f"{title}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return [(row[0], row[1], row[3].strip("`")) for row in rows[1:] if not row[0].startswith("---")]


def numbers_of(value):
    """All numbers of a result file, as the page writes them."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {shown for each in value for shown in numbers_of(each)}
    return {f"{value:.3f}".removeprefix("0")} if isinstance(value, float) else set()


def test_there_are_claims():
    assert len(claims()) >= 4


@pytest.mark.parametrize(("what", "figures", "file"), claims())
def test_the_figures_of_a_claim_stand_in_its_file(what, figures, file):
    known = numbers_of(json.loads((RESULTS / file).read_text(encoding="utf-8"))["rows"])
    shown = re.findall(r"\.\d{3}\b", figures)
    assert shown, what
    assert not set(shown) - known


def losses():
    """Rows of the table of losses that name one file."""
    return [row for row in claims("## Losses") if (RESULTS / row[2]).is_file()]


def test_losses_come_before_claims():
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert 0 < text.index("## Losses") < text.index("## Claims")
    assert len(losses()) >= 4


@pytest.mark.parametrize(("what", "figures", "file"), losses())
def test_the_figures_of_a_loss_stand_in_its_file_or_in_print(what, figures, file):
    result = json.loads((RESULTS / file).read_text(encoding="utf-8"))
    known = numbers_of([result["rows"], result.get("published", [])])
    shown = re.findall(r"\.\d{3}\b", figures)
    assert shown, what
    assert not set(shown) - known
