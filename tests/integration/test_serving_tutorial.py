"""The recall tutorial does what it says, from its first block to the last before serving."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from groupnoise.cli.app import app
from groupnoise.recall import open_artifact

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial_recall_service.md"


def blocks(text):
    """Return (language, code) of every fenced block, in order."""
    return re.findall(r"```(\w+)\n(.*?)```", text, flags=re.DOTALL)


def run_commands(script):
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        is_tried = words[:1] == ["groupnoise"] and words[1] != "serve" and "beauty" not in line
        if is_tried:
            result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
            assert result.exit_code == 0, result.output


@pytest.mark.nightly
def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before_serving = TUTORIAL.read_text(encoding="utf-8").split("## 5. Serve")[0]
    # The card is shown after the command that reads it.
    for language, code in blocks(before_serving):
        if language == "json":
            Path("card.json").write_text(code)
    for language, code in blocks(before_serving):
        if language == "python":
            exec(code, {})
        elif language == "bash":
            run_commands(code)
    assert open_artifact("artifacts/shop").card["name"] == "Max-Matching"
    assert Path("recs.parquet").stat().st_size > 0
    assert len(capsys.readouterr().out.splitlines()) >= 2


def test_every_route_and_option_of_the_tutorial_exists():
    text = TUTORIAL.read_text(encoding="utf-8")
    from groupnoise.recall.http.requests import RecallRequest

    sentence = re.search(r"A request may also carry (.*?)\n\n", text, flags=re.DOTALL).group(1)
    named = set(re.findall(r"`(\w+)`(?! or)", sentence)) - {"compare", "group", "last"}
    assert named - {"main"} <= set(RecallRequest.model_fields)
