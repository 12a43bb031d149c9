"""What help names exists, what is typed wrong gets a sentence, and methods go by their names."""

import json
import re

import pytest
import typer

from groupnoise.cli.app import app
from journeys.own_files import FILES, QUICK

TREE = typer.main.get_command(app)
FILE_OPTIONS = (
    "--setting", "--user", "--item", "--time", "--group", "--label", "--candidates", "--truth",
    "--features", "--separator", "--no-header", "--format",
)  # fmt: skip


VOTE_OPTIONS = (
    "--annotators", "--row", "--label", "--candidates", "--truth", "--features", "--text",
    "--separator", "--no-header", "--format",
)  # fmt: skip


def commands(command=TREE, name=()):
    """Every command and subcommand with the words that call it."""
    yield name, command
    if hasattr(command, "commands"):
        for word, part in command.commands.items():
            yield from commands(part, (*name, word))


NAMED = dict(commands())


def words_of_help(command):
    yield command.help or ""
    for parameter in command.params:
        yield getattr(parameter, "help", None) or ""


@pytest.mark.parametrize("name", list(NAMED), ids=lambda name: " ".join(name) or "groupnoise")
def test_every_command_that_help_names_exists(name):
    for text in words_of_help(NAMED[name]):
        for shown in re.findall(r"`groupnoise ([a-z ]+[a-z])", text):
            words = tuple(shown.split())
            assert words[:1] in NAMED, text
            if hasattr(NAMED[words[:1]], "commands"):
                assert words[:2] in NAMED, text


def test_the_help_of_data_names_its_commands_and_no_other():
    named = re.split(r", | and ", NAMED["data",].help.partition(":")[2].strip(" ."))
    there = {name[1] for name in NAMED if len(name) == 2 and name[0] == "data"}
    assert {word.split()[0] for word in named} == there


def test_describe_needs_no_data_before_it():
    alone, named = NAMED["describe",], NAMED["data", "describe"]
    assert alone.help == named.help
    assert [each.name for each in alone.params] == [each.name for each in named.params]


@pytest.mark.parametrize("name", list(NAMED), ids=lambda name: " ".join(name) or "groupnoise")
def test_an_option_has_the_same_short_form_in_every_command(name):
    short = {"--output": "-o", "--param": "-p", "--quiet": "-q"}
    for parameter in NAMED[name].params:
        for long in short.keys() & set(parameter.opts):
            assert short[long] in parameter.opts


READERS = [
    name
    for name, command in NAMED.items()
    if {"data", "options"} & {parameter.name for parameter in command.params}
    or name in (("data", "describe"), ("data", "convert"))
]


def test_the_commands_that_read_data_are_found():
    assert {("fit",), ("evaluate",), ("predict",), ("audit",), ("compare",)} <= set(READERS)


@pytest.mark.parametrize("name", READERS, ids=" ".join)
def test_columns_can_be_named_wherever_a_file_is_read(name):
    there = {
        option
        for parameter in NAMED[name].params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    with_vote_options = name in (("resolve",), ("review",))
    assert set(VOTE_OPTIONS if with_vote_options else FILE_OPTIONS) <= there


def test_methods_prints_every_default_as_a_value(command):
    for words in ([], ["--json"]):
        said = command("methods", *words).out
        assert "inspect" not in said
        assert "_empty" not in said
        assert "kwargs" not in said


def test_a_method_without_parameters_refuses_one_in_a_sentence(command):
    said = command("fit", "shop", "-o", "m", "--method", "popularity", "-p", "args=1", code=2)
    assert "popularity" in said.err
    assert "parameter" in said.err
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["mil", "pll", "rs"])
def test_the_ablations_of_the_paper_are_methods_by_name(command, tmp_path, setting):
    names = {row["name"] for row in json.loads(command("methods", "--json").out)}
    assert {"pairwise", "matching", "maximizing"} <= names
    path, words = next(writer for (own, _), writer in FILES.items() if own == setting)(tmp_path)
    answers = set()
    for method in ("pairwise", "matching", "maximizing", "max-matching"):
        file = [path.name, "--setting", setting, *words]
        command("fit", *file, "-o", method, "-q", "--method", method, *QUICK[setting])
        command("predict", method, *file, "-o", f"{method}.csv")
        answers.add((tmp_path / f"{method}.csv").read_text())
    assert len(answers) == 4


def test_an_ablation_keeps_what_makes_it_one(command):
    words = ["fit", "digit-bags", "-o", "m", "--method", "pairwise", "-p", "selection=max"]
    assert "pairwise" in command(*words, code=2).err


def test_a_background_label_is_typed_as_the_file_writes_it(command, tmp_path):
    path, _ = FILES["mil", "csv"](tmp_path)
    text = path.read_text()
    for number, name in enumerate(("cat", "dog", "emu")):
        text = text.replace(name, str(number))
    path.write_text(text)
    file = [path.name, "--setting", "mil", "-q", *QUICK["mil"]]
    absent = ["-p", "absent_strength=1"]
    command("fit", *file, "-o", "plain", *absent)
    command("fit", *file, "-o", "told", *absent, "-p", "background_label=0")
    for model in ("plain", "told"):
        command("predict", model, path.name, "--setting", "mil", "-o", f"{model}.csv")
    assert (tmp_path / "plain.csv").read_text() != (tmp_path / "told.csv").read_text()
    refused = command("fit", *file, "-o", "m", *absent, "-p", "background_label=7", code=2).err
    assert "background_label=7 names no label of the data; there are 0, 1, 2." in refused


def test_a_background_label_is_used_or_refused_and_never_forgotten(command, tmp_path):
    path, _ = FILES["mil", "csv"](tmp_path)
    file = [path.name, "--setting", "mil", "-q", *QUICK["mil"]]
    words = ["-p", "background_label=cat", "-p", "absent_strength=0"]
    assert "absent_strength" in command("fit", *file, "-o", "m", *words, code=2).err
