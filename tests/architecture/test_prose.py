"""Figures that sentences work out from a table are those of the table."""

import ast
import json
import re
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def text_of(page):
    """A page in one line, so that a sentence is found wherever its lines break."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def rows_of(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def pair_of(log, method, table="recall_protocols"):
    """HIT and NDCG of ours, and what a published method has, from a table of the page."""
    page = (ROOT / "docs" / "recall_evaluation.md").read_text(encoding="utf-8")
    block = page.partition(f"<!-- table: {table} -->\n")[2].partition("<!-- end -->")[0]
    lines = [line.strip("| ").split(" | ") for line in block.splitlines()]
    place = lines[0].index("default `fit`")
    (ours,) = [line[place] for line in lines if line[0] == log]
    printed = page.partition("<!-- table: recall_protocols:published -->")[2]
    found = re.search(rf"\| {log} \| {re.escape(method)} \| [^|]* \| ([.\d]+) / ([.\d]+) ", printed)
    return [float(each) for each in re.findall(r"\.\d+", ours)], list(map(float, found.groups()))


def percents_behind(*place, **table):
    ours, theirs = pair_of(*place, **table)
    return [round(100 * (1 - own / other)) for own, other in zip(ours, theirs, strict=True)]


def test_how_far_ours_is_behind_print_on_sports_and_beauty():
    hit, gain = percents_behind("sports", "TV-Rec")
    other_hit, other_gain = percents_behind("sports", "BSARec")
    (_, beauty) = percents_behind("beauty", "BSARec")
    assert (
        f"On Sports it is behind TV-Rec ({hit} % of HIT@10, {gain} % of NDCG@10) and BSARec "
        f"({other_hit} % and {other_gain} %), on Beauty {beauty} % of NDCG@10 behind BSARec"
    ) in text_of("docs/recall_evaluation.md")
    assert (
        f"stays {hit} % (HIT@10) and {gain} % (NDCG@10) behind TV-Rec's log on Sports, "
        f"{other_hit} % and {other_gain} % behind BSARec's figures there, and {beauty} % behind"
    ) in text_of("README.md")
    assert (
        f"is {hit} % behind the HIT@10 of TV-Rec's log and {gain} % behind its NDCG@10, and "
        f"{other_hit} % and {other_gain} % behind those of BSARec"
    ) in text_of("docs/unseen.md")


def test_how_far_ours_is_behind_print_among_100():
    video = percents_behind("video", "DGSR", table="unseen_clicks:among_100")
    beauty = percents_behind("full beauty", "DGSR", table="unseen_clicks:among_100")
    assert (
        "by {} % of HIT@10 and {} % of NDCG@10 on Video, {} % and {} % on full Beauty".format(
            *video, *beauty
        )
    ) in text_of("docs/recall_evaluation.md")


def test_what_a_plain_fit_of_bags_costs_beside_one_network():
    seconds = {}
    for row in rows_of("unseen_bags"):
        seconds.setdefault(row["set"], {})[row["method"]] = row["processor seconds"]
    times = {name: own["max-matching"] / own["mi-net"] for name, own in seconds.items()}
    several = ("natural scenes", "hja birdsong", "letter words", "letter frost")
    first = sorted(value for name, value in times.items() if name not in several)
    second = sorted(times[name] for name in several)
    letters = seconds["letter words"]
    page = text_of("docs/unseen.md")
    assert f"{first[0]:.1f} to {first[-1]:.1f} times the processor time of one mi-Net" in page
    assert f"{median(times.values()):.1f} times; with several labels per bag" in page
    assert (
        f"several labels per bag {second[0]:.1f} to {second[-1]:.1f} times (letter words: "
        f"{letters['max-matching']:.1f} s against {letters['mi-net']:.1f} s)"
    ) in page


def test_how_many_training_bags_of_sival_are_resolved():
    figures = json.loads((RESULTS / "mipl_sival25.json").read_text(encoding="utf-8"))["figures"]
    shares = sorted(round(each["training bags resolved"]["mean"]) for each in figures)
    words = f"on SIVAL of {shares[0]} to {shares[-1]} bags in a hundred"
    assert words in text_of("docs/mipl.md")


def trials_of(name):
    """Lines of trials, and of each that was chosen by the first criterion its settings."""
    result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    parts = [line.split(" | ") for line in result["trials"]]
    chosen = [
        (part[0], part[1], ast.literal_eval(next(each for each in part if each[0] == "{")))
        for part in parts
        if part[2] == result["criteria"][0]
    ]
    return result["trials"], chosen


ENDS = [
    ("cc", "lost", "learning_rate", 0.03, "CC on Lost (rate .03: {})"),
    ("cc", "msrcv2", "learning_rate", 0.01, "and MSRCv2 (.01: {}), PRODEN"),
    ("proden", "lost", "learning_rate", 0.01, "PRODEN on Lost (.01: {})"),
    ("proden", "msrcv2", "learning_rate", 0.01, "MSRCv2 (.01: {}) and BirdSong"),
    ("proden", "birdsong", "learning_rate", 0.003, "BirdSong (.003: {})"),
    ("pl-svm", "birdsong", "regularization", 0.0001, "PL-SVM on BirdSong (.0001: {})"),
    ("clpl", "fg-net", "regularization", 1.0, "CLPL (1: {})"),
    ("paloc", "fg-net", "penalty", 1.0, "PALOC (1: {}) on FG-NET"),
    ("mi-net", "sival-like", "learning_rate", 0.003, "mi-Net (.003: {})"),
    ("attention-mil", "sival-like", "learning_rate", 0.03, "attention (.03: {}) on SIVAL-like"),
    ("gicf", "letter-nonsense", "bag_weight", 10.0, "(weight of bags 10: {} and"),
    ("gicf", "letter-walk", "bag_weight", 10.0, "and {}) and Spambase"),
    ("gicf", "spambase-bags", "learning_rate", 1.0, "Spambase (rate 1: {})"),
    ("imil", "spambase-bags", "learning_rate", 0.001, "iMIL on Spambase (.001: {})"),
    ("paper", "hja-birdsong", "learning_rate", 0.1, "HJA birdsong ({}) and letter words"),
]
"""Method, data set, what is chosen, the end of its grid, and how the page says it."""


@pytest.mark.parametrize(("method", "data", "key", "value", "words"), ENDS)
def test_how_often_a_baseline_took_the_end_of_its_grid(method, data, key, value, words):
    of_candidates = data in ("lost", "msrcv2", "birdsong", "fg-net")
    name = f"reproduce_{'pll' if of_candidates else 'mil'}_final"
    settings = [each for *place, each in trials_of(name)[1] if place == [data, method]]
    count = sum(each[key] == value for each in settings)
    assert len(settings) == 10
    assert words.format(count) in text_of("docs/evidence.md")


def test_how_many_trials_were_made_with_uncommitted_changes_is_said_as_it_is():
    page = text_of("docs/evidence.md")
    for name, words in (("pll", "candidate labels"), ("mil", "bags")):
        lines, _ = trials_of(f"reproduce_{name}_final")
        n_dirty = sum("dirty True" in line for line in lines)
        assert f"{n_dirty} of {len(lines)} ({words})" in page
