"""Every example runs and learns something."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_epochs", "least"),
    [
        ("audit_wrong_labels", 25, 0.6),
        ("bags", 15, 0.8),
        ("bags_with_own_network", 10, 0.8),
        ("candidates", 8, 0.9),
        ("digit_pictures", None, 0.9),
        ("images_through_a_cnn", 8, 0.8),
        ("precomputed_embeddings", 6, 0.8),
        ("recall", 3, 0.5),
        ("text_through_a_module", 15, 0.9),
    ],
)
def test_example_learns(name, n_epochs, least, groupnoise, capsys, monkeypatch):
    def run(words, *, cwd, check):
        """Run a command in this process, whose libraries are loaded."""
        assert words[:3] == [sys.executable, "-m", "groupnoise"]
        with monkeypatch.context() as here:
            here.chdir(cwd)
            code, _, error = groupnoise(*words[3:])
        assert check
        assert not code, error

    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "subprocess"):
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=run))
    assert module.main(n_epochs) > least
    assert capsys.readouterr().out


def test_no_example_is_left_untested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "audit_wrong_labels",
        "bags",
        "bags_with_own_network",
        "candidates",
        "digit_pictures",
        "images_through_a_cnn",
        "make_files",  # the README is run on what it writes
        "nightly",  # test_nightly_example.py
        "nightly_airflow",
        "precomputed_embeddings",
        "recall",
        "text_through_a_module",
    }
