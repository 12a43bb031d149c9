"""Result files say by which command their figures were made."""

import importlib.util
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_recorded_command_can_be_typed_as_it_stands(monkeypatch):
    spec = importlib.util.spec_from_file_location("_record", ROOT / "benchmarks" / "_record.py")
    record = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(record)
    words = [str(ROOT / "benchmarks" / "queries.py"), "--sets", "digits 200 uniform", "wine"]
    monkeypatch.setattr("sys.argv", words)
    typed = record._command()
    assert shlex.split(typed) == ["python", "benchmarks/queries.py", *words[1:]]
