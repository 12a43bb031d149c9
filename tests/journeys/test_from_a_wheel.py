"""Nothing needs the checkout: what README says runs from an installed wheel in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
LINES = [
    line.removeprefix("$ ")
    for language, block in BLOCKS
    if language != "python"
    for line in block.replace("\\\n", " ").splitlines()
    if line.removeprefix("$ ").startswith("groupnoise ")
]


SHOWN = [
    line
    for language, block in BLOCKS
    if language == "text"
    for line in block.splitlines()
    if line != "..."
]
BOUND = ("--budget", "5s")
"""What the test adds to `fit`: README shows a search that was given all the time it needs."""


def shape_of(line):
    """A line without its figures and blanks."""
    return " ".join(re.sub(r"-?[\d.]+", "#", line).split())


@pytest.mark.slow
def test_the_commands_of_the_readme_run_and_print_what_it_shows(from_wheel, wheel):
    assert LINES
    assert SHOWN
    make_files = [sys.executable, ROOT / "examples" / "make_files.py"]
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    subprocess.run(make_files, cwd=from_wheel.folder, env=environment, check=True, timeout=120)
    inputs = set(from_wheel.folder.iterdir())
    commands = [shlex.split(line, comments=True)[1:] for line in LINES]
    said = from_wheel.one_after_the_other(
        shlex.join([*words, *(BOUND if words[0] == "fit" else ())]) for words in commands
    )
    printed = (said.stdout + said.stderr).splitlines()
    for answers in set(from_wheel.folder.glob("*.csv")) - inputs:
        printed += answers.read_text(encoding="utf-8").splitlines()[:2]
    # One after the other: where a sentence is broken depends on how long its figures are.
    whole = " ".join(map(shape_of, printed))
    assert not [line for line in SHOWN if shape_of(line) not in whole]


@pytest.mark.slow
def test_the_recipes_are_in_the_wheel(from_wheel):
    refused = from_wheel("reproduce", "nothing-of-the-kind", code=2).stderr
    for name in ("mil", "pll", "pll-noise", "amazon", "sival-pairs", "recall-examples"):
        assert name in refused
    # Without its data sets a table has no rows, and says what is missing.
    assert "left out lost" in from_wheel("reproduce", "pll", "--quick").stderr


@pytest.mark.slow
def test_a_table_is_reproduced_from_the_wheel(from_wheel, data_directory):
    words = ["--quick", "--datasets", "lost", "--methods", "pl-knn", "--jobs", 1]
    said = from_wheel("reproduce", "pll", *words, GROUPNOISE_DATA=str(data_directory))
    assert "pl-knn" in said.stdout


@pytest.mark.slow
def test_data_is_looked_for_where_a_user_put_it_and_nowhere_else(from_wheel):
    """A folder that happens to be called shared/data beside this one is nobody's choice."""
    beside = from_wheel.folder.parent / "shared" / "data"
    beside.mkdir(parents=True)
    assert str(beside) not in from_wheel("doctor").stdout


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
MODULES = {
    "faiss-cpu": "faiss",
    "mlflow-skinny": "mlflow",
    "open-clip-torch": "open_clip",
    "pillow": "PIL",
    "pooch": "requests",
}
"""What a package is called in an import, or brings along."""


def packages(lines):
    return {re.match(r"[\w-]+", line).group() for line in lines}


def test_no_extra_is_dead():
    """Every package that an extra brings is imported somewhere."""
    for extra, lines in EXTRAS.items():
        if extra in ("all", "dev", "docs"):
            continue
        for package in packages(lines):
            module = MODULES.get(package, package.replace("-", "_"))
            used = rf"(import {module}\b|from {module}\b|\"{module}[\".])"
            assert re.search(used, SOURCE), (extra, package)


def test_what_is_missing_is_asked_for_under_an_extra_that_brings_it():
    asked = set(re.findall(r'require\(\s*"([\w.]+)",\s*extra="(\w+)"', SOURCE))
    assert ("PIL.Image", "plots") in asked
    packages_of = {module: package for package, module in MODULES.items()}
    for module, extra in asked:
        top = module.split(".")[0]
        package = packages_of.get(top, top.replace("_", "-"))
        brought = packages([*PROJECT["dependencies"], *EXTRAS[extra]])
        assert package in brought, (module, extra)
