"""What answering only the surest costs: in `evaluate`, its JSON and its page."""

import json

import numpy as np
import pytest

from journeys.own_files import bags_csv, candidates_with

SETTINGS = {
    "mil": (bags_csv, ["-p", "encoder=identity", "-p", "likelihood=noisy_or"], "bags"),
    "pll": (candidates_with(lambda names: "|".join(names)), ["-p", "encoder=kernel"], "rows"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_evaluate_tells_and_draws_the_risk_coverage_curve(command, tmp_path, setting):
    write, words, units = SETTINGS[setting]
    path, _ = write(tmp_path)
    words = ["--setting", setting, *words, "-q", "--validation", "0.3", "--truth", "truth"]
    command("fit", path, "-o", "model", *words)
    said = command("evaluate", "model", path, "--page", "page.html").out
    assert "risk-coverage area" in said
    assert "page: page.html" in said
    page = (tmp_path / "page.html").read_text()
    assert f"Risk and coverage: {units}" in page
    assert "<polyline" in page
    assert "http" not in page.replace("http-equiv", "")
    record = json.loads(command("evaluate", "model", path, "--json").out)
    curve = record["risk_coverage"][units]
    assert len(curve["coverage"]) == len(curve["risk"])
    assert curve["coverage"][-1] == 1.0
    prefix = "bag " if setting == "mil" else ""
    assert curve["risk"][-1] == pytest.approx(1.0 - record[f"{prefix}accuracy"], abs=1e-6)
    if len(curve["risk"]) == record["groups"]:
        area = record[f"{prefix}risk-coverage area"]
        assert np.mean(curve["risk"]) == pytest.approx(area, abs=1e-5)
