"""Click logs under every protocol, from the file to the figures."""

import json

import polars as pl
import pytest

from journeys.own_files import click_rows, write_csv

COLUMNS = ("user", "item", "time")
PROTOCOLS = [
    "last",
    "leave_one_out",
    "leave_one_out+validation",
    "authors",
    "time:0.8",
    "time:0.7:successive",
    "time:2020-09-14:successive",
    "cold_users",
    "cold_users:1:successive",
]


def dated_rows(n_users=40):
    """Users who begin on different days and have up to ten clicks."""
    rows = click_rows(n_users)
    begins = {user: 86_400 * number for number, user in enumerate(sorted({r[0] for r in rows}))}
    rows = [(user, item, time + begins[user]) for user, item, time in rows]
    more = [(user, f"i{int(item[1:]) // 2:02d}", time + 7_000) for user, item, time in rows[::2]]
    return rows + more


@pytest.fixture
def log(tmp_path):
    return write_csv(tmp_path / "log.csv", COLUMNS, dated_rows()).name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_fit_holds_out_under_a_protocol_evaluate_asks_for(command, log, protocol):
    words = [log, "--setting", "rs"]
    said = command(
        "fit", *words, "-o", "model", "-q", "--method", "item-cf", "--protocol", protocol
    ).out
    assert protocol in said
    judged = json.loads(command("evaluate", "model", *words, "--json").out)
    assert judged["protocol"] == protocol
    assert judged["on"] == "held-out"
    assert judged["trained_on"] == 0
    assert judged["groups"] > 0
    assert judged["full HIT@10"] >= judged["full NDCG@10"] > 0
    assert protocol in command("evaluate", "model", *words).out


def test_a_protocol_that_asks_for_trained_clicks_is_refused_unless_all_is_said(command, log):
    words = [log, "--setting", "rs"]
    command("fit", *words, "-o", "model", "-q", "--method", "item-cf")
    refused = command("evaluate", "model", *words, "--protocol", "leave_one_out", code=2).err
    assert "fit it with --protocol leave_one_out, or say --on all" in refused
    told = command("evaluate", "model", *words, "--protocol", "last", "--on", "all").out
    assert "trained on" in told


def test_another_log_is_asked_under_any_protocol(command, log, tmp_path):
    command("fit", log, "--setting", "rs", "-o", "model", "-q", "--method", "item-cf")
    rows = [(f"v{user}", item, time) for user, item, time in dated_rows(30)]
    write_csv(tmp_path / "other.csv", COLUMNS, rows)
    for protocol in ("leave_one_out", "time:0.5:successive"):
        judged = json.loads(
            command("evaluate", "model", "other.csv", "--protocol", protocol, "--json").out
        )
        assert judged["trained_on"] == 0
        assert judged["protocol"] == protocol


def test_of_a_log_with_one_more_day_only_what_is_asked_for_counts_as_learned(command, tmp_path):
    rows = dated_rows()
    write_csv(tmp_path / "log.csv", COLUMNS, rows)
    for name in ("item-cf", "popularity"):
        fit = ["fit", "log.csv", "--setting", "rs", "-q", "--method", name, "--validation", 0]
        command(*fit, "-o", name)
    users, end = sorted({user for user, *_ in rows}), max(time for *_, time in rows)
    day = [(user, "i03", end + 60 * number + 60) for number, user in enumerate(users[:7])]
    write_csv(tmp_path / "both.csv", COLUMNS, [*rows, *day])
    words = ["evaluate", "item-cf", "both.csv", "--against", "popularity", "--json"]
    share = (len(rows) - 0.5) / (len(rows) + len(day))
    asked = command(*words, "--protocol", f"time:{share:.6f}")
    new = json.loads(asked.out)
    assert (new["groups"], new["trained_on"], new["other_trained_on"]) == (7, 0, 0)
    assert "flatter" not in asked.err
    asked = command(*words, "--protocol", "time:0.5:successive")
    both = json.loads(asked.out)
    assert both["trained_on"] == both["other_trained_on"] == both["groups"] - len(day) > 0
    learned = f"learned from {both['trained_on']} of the {both['groups']} histories"
    assert f"warning: item-cf {learned}" in asked.err
    assert f"warning: popularity {learned}" in asked.err


def test_several_targets_of_a_user_are_not_called_histories(command, log):
    fit = ["fit", log, "--setting", "rs", "-o", "model", "-q", "--method", "popularity"]
    command(*fit, "--protocol", "cold_users:1:successive")
    asked = json.loads(command("evaluate", "model", log, "--json").out)
    assert asked["users_asked"] == 4 < asked["targets"]
    assert any(note.startswith("of 4 histories: says little") for note in asked["warnings"])
    told = command("evaluate", "model", log).out
    assert f"log: {asked['targets']} targets of 4 users, held out of training" in told


def test_two_models_rows_and_lengths(command, log, tmp_path):
    words = [log, "--setting", "rs"]
    for method in ("item-cf", "popularity"):
        fit = ["fit", *words, "-o", method, "-q", "--method", method]
        command(*fit, "--protocol", "leave_one_out")
    asked = [*words, "--against", "popularity", "--per-user", "rows.parquet", "--at", "1,3"]
    judged = json.loads(command("evaluate", "item-cf", *asked, "--json").out)
    gap, low, high = judged["ahead of popularity"]["NDCG@3"]
    assert low <= gap <= high
    rows = pl.read_parquet(tmp_path / "rows.parquet")
    assert len(rows) == judged["groups"]
    assert rows["NDCG@3"].mean() == pytest.approx(judged["full NDCG@3"])
    assert "ahead of popularity" in command("evaluate", "item-cf", *asked).out
    command("fit", *words, "-o", "other", "-q", "--method", "popularity", "--protocol", "last")
    refused = command("evaluate", "item-cf", *words, "--against", "other", code=2).err
    assert "did not hold out the same" in refused


def test_methods_are_compared_under_a_protocol_with_intervals_over_users(command, log, tmp_path):
    words = ["compare", log, "--setting", "rs", "--methods", "item-cf,popularity,ease"]
    told = command(*words, "--protocol", "time:0.7:successive", "--page", "page.html").out
    assert "time:0.7:successive" in told
    assert "over users" in told
    assert "time:0.7:successive" in (tmp_path / "page.html").read_text()
    found = json.loads(command(*words, "--protocol", "leave_one_out", "--json").out)
    assert found["protocol"] == "leave_one_out"
    assert {row["method"] for row in found["methods"]} == {"item-cf", "popularity", "ease"}
    assert all(row["low"] <= row["mean"] <= row["high"] for row in found["methods"])


def test_odd_logs_are_told_of_in_a_sentence_each(command, tmp_path):
    rows = dated_rows()
    odd = [("lone", "i03", 1_600_000_000), *[("twin", item, 1_600_000_000) for item in "abca"]]
    write_csv(tmp_path / "odd.csv", COLUMNS, [*odd, *rows[::-1]])
    words = ["odd.csv", "--setting", "rs"]
    fit = ["fit", *words, "-o", "model", "-q", "--method", "popularity"]
    said = command(*fit, "--protocol", "leave_one_out").err
    for sentence in (
        "1 history skipped: a single click leaves nothing to predict",
        "targets clicked before by the same user",
        "rows not in order of time, which have been sorted",
        "clicks at the time of the user's click before",
    ):
        assert sentence in said
    assert "have been sorted" in command("evaluate", "model", *words).out
    late = command(*fit, "--protocol", "time:2030-01-01", code=2).err
    assert "nobody clicks after the cut of time:2030-01-01; odd runs from 2020-09-13 to " in late
    assert "to train on" in command(*fit, "--protocol", "time:1000", code=2).err
    assert "a protocol of clicks is" in command(*fit, "--protocol", "often", code=2).err
    timeless = write_csv(tmp_path / "order.csv", ("user", "item"), [row[:2] for row in rows])
    fit[1] = timeless.name
    assert "does not say when" in command(*fit, "--protocol", "time:0.9", code=2).err


def test_options_of_clicks_are_refused_for_other_data(command):
    refused = command(
        "fit", "digit-candidates", "-o", "model", "-q", "--protocol", "last", code=2
    ).err
    assert "click logs" in refused


@pytest.mark.slow
def test_recommenders_are_reproduced_on_the_shipped_shop_in_seconds(command, tmp_path):
    words = ["reproduce", "recall", "--quick", "--jobs", 1, "--output", "runs"]
    some = ["--methods", "max-matching,item-cf", "--protocol", "leave_one_out,cold_users"]
    told = command(*words, *some, "--json", "rows.json").out
    assert "## shop, leave_one_out" in told
    assert "## shop, cold_users" in told
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len(rows) == 4
    assert all(row["failed"] is None and row["counts"]["targets"] for row in rows)
    assert (tmp_path / "runs/recall/report.md").is_file()
    assert "no set 'moon'" in command(*words, "--datasets", "moon", code=2).err
    assert "a protocol of clicks" in command(*words, "--protocol", "8:1:1", code=2).err
