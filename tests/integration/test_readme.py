"""What the README and the docs tell a reader to type works as written."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
HAS_ITS_OWN_TEST = "tutorial_recall_service.md"  # commands and Python lead to each other


def python_blocks(page):
    """Return what to run: each block alone, or a tutorial as one, since its blocks build up.

    Blocks marked `py` need an engine or a service that is not here; their own tests run the same.
    """
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return ["\n".join(blocks)] if page.name.startswith("tutorial_") and blocks else blocks


PYTHON_BLOCKS = [
    (page.name, number, block)
    for page in PAGES
    if page.name != HAS_ITS_OWN_TEST
    for number, block in enumerate(python_blocks(page))
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "block"),
    [(page, block) for page, _, block in PYTHON_BLOCKS],
    ids=[f"{page}-{number}" for page, number, _ in PYTHON_BLOCKS],
)
def test_python_shown_in_the_docs_runs(page, block, small_forests, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, page, "exec"), {"__name__": "docs"})


@pytest.mark.slow
def test_every_command_of_the_docs_has_the_options_it_is_shown_with(groupnoise):
    shown = [
        line
        for page in PAGES
        for block in re.findall(r"```\w*\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("groupnoise ")
    ]
    assert len(shown) > 15
    for line in dict.fromkeys(shown):
        # Options are parsed before the help is shown, so a wrong one fails here.
        code, *said = groupnoise(*shlex.split(line, comments=True)[1:], "--help")
        assert not code, f"{line}\n{said}"


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_link_inside_the_docs_leads_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not link.startswith(("http:", "https:")):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_tables_of_the_readme_equal_the_result_files():
    finished = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "readme_tables.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout
