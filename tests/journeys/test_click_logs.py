"""Every log that `fit` reads is read by every other command, with the same guesses."""

import gzip
import json

import numpy as np
import pytest

from click_journeys import read_answers, shop_histories

DAYS = [f"{day:02}/03/2024 10:00" for day in range(13, 32)]


def rows_of(histories):
    return [
        (f"u{user:03}", item, time)
        for user, history in enumerate(histories)
        for time, item in enumerate(history)
    ]


def as_text(rows, separator=",", header="user,item,time"):
    lines = [header.replace(",", separator)] if header else []
    return "\n".join([*lines, *(separator.join(map(str, row)) for row in rows)]) + "\n"


def as_parquet(rows, path, names=("user", "item", "time")):
    import polars as pl

    pl.DataFrame(rows, schema=list(names), orient="row").write_parquet(path)


def write_variant(name, folder):
    """Write one log in one of the forms people keep logs in; the clicks are the same in all."""
    rows = rows_of([history[:9] for history in shop_histories(40)])
    path = folder / {
        "tsv": "log.tsv", "pairs": "log.txt", "gzip": "log.csv.gz", "parquet": "log.parquet",
        "parquet with other names": "log.parquet", "json lines": "log.jsonl",
        "json lines of lists": "log.jsonl", "gzipped tsv": "log.tsv.gz",
    }.get(name, "log.csv")  # fmt: skip
    plain = as_text(rows)
    if name == "plain":
        path.write_text(plain)
    elif name == "user_id headers":
        path.write_text(as_text(rows, header="user_id,item_id,timestamp"))
    elif name == "ratings":
        path.write_text(
            as_text([(u, i, 4, t) for u, i, t in rows], header="userId,movieId,rating,timestamp")
        )
    elif name == "unsorted":
        path.write_text(as_text(sorted(rows, key=lambda row: (-row[2], row[1]))))
    elif name == "headerless":
        path.write_text(as_text([(u, i, 5.0, 1700000000 + t) for u, i, t in rows], header=None))
    elif name == "day/month dates":
        path.write_text(as_text([(u, i, DAYS[t]) for u, i, t in rows]))
    elif name == "tsv":
        path.write_text(as_text(rows, "\t"))
    elif name == "semicolons":
        path.write_text(as_text(rows, ";"))
    elif name == "pairs":
        path.write_text("".join(f"{u} {i.replace(' ', '_')}\n" for u, i, _ in rows))
    elif name == "gzip":
        path.write_bytes(gzip.compress(plain.encode()))
    elif name == "gzipped tsv":
        path.write_bytes(gzip.compress(as_text(rows, "\t").encode()))
    elif name == "parquet":
        as_parquet(rows, path)
    elif name == "parquet with other names":
        as_parquet(rows, path, ("session_id", "sku", "ts"))
    elif name == "json lines":
        path.write_text(
            "".join(json.dumps({"user": u, "item": i, "time": t}) + "\n" for u, i, t in rows)
        )
    elif name == "json lines of lists":
        lists = {}
        for user, item, _ in rows:
            lists.setdefault(user, []).append(item)
        path.write_text(
            "".join(json.dumps({"user": u, "items": i}) + "\n" for u, i in lists.items())
        )
    return path


VARIANTS = (
    "plain", "user_id headers", "ratings", "unsorted", "headerless", "day/month dates", "tsv",
    "semicolons", "pairs", "gzip", "gzipped tsv", "parquet", "parquet with other names",
    "json lines", "json lines of lists",
)  # fmt: skip
FITTING = (
    *("-p", "normalization=click", "-p", "dim=8", "-p", "max_epochs=1"),
    *("-p", "n_negatives=8", "-p", "batch_size=64"),
)
"""Nothing is left to decide: what is read matters here, not what is learned."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_log_that_fit_reads_is_read_by_every_command(variant, tmp_path, groupnoise):
    log = write_variant(variant, tmp_path)
    made = tmp_path / "model"
    code, _, said = groupnoise("fit", log, "--setting", "rs", "-o", made, "--quiet", *FITTING)
    assert code == 0, said
    for words in (
        ("evaluate", made, log, "--setting", "rs"),
        ("predict", made, log, "--setting", "rs", "-o", tmp_path / "predicted.jsonl", "--top", 5),
        ("data", "describe", log, "--setting", "rs"),
        ("audit", log, "--setting", "rs", "--model", made, "-o", tmp_path / "audit", "-q"),
        ("export", made, "--output", tmp_path / "artifact", "--items", log),
        ("recall", tmp_path / "artifact", "--histories", log, "--output",
         tmp_path / "recalled.jsonl", "--top", 5, "--quiet"),
    ):  # fmt: skip
        code, out, said = groupnoise(*words)
        assert code == 0, f"{words[0]}: {said}{out}"
    assert read_answers(tmp_path / "recalled.jsonl")
    assert is_alike(tmp_path / "predicted.jsonl", tmp_path / "recalled.jsonl")


def is_alike(predicted, recalled):
    """Tell whether `predict` and `recall` gave every user of a log the same items and scores.

    Items of one score, but for the last bits, may change places.
    """
    rows = [json.loads(line) for line in predicted.read_text().splitlines()]
    answers = {user: answer for user, answer in read_answers(recalled).items() if answer[0]}
    for user, (items, scores) in answers.items():
        own = [row for row in rows if str(row["user"]) == user]
        if {row["item"] for row in own} != set(items):
            return False
        if not np.allclose([row["score"] for row in own], scores, atol=1e-5):
            return False
    return {str(row["user"]) for row in rows} == set(answers)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "who;what;when\na;x;1\na;y;2\nb;x;1\nb;z;2\nc;x;3\nc;y;4\n",
            ("--user", "who", "--item", "what", "--time", "when"),
        ),
        ("a|x|1\na|y|2\nb|x|1\nb|z|2\nc|x|3\nc|y|4\n", ("--separator", "|", "--no-header")),
    ],
    ids=["columns named", "separator and no header"],
)  # fmt: skip
def test_recall_takes_the_names_of_columns(text, words, tmp_path, groupnoise):
    (tmp_path / "log.csv").write_text(text)
    train = tmp_path / "train.csv"
    train.write_text(as_text(rows_of([["x", "y", "z", "x", "y", "z"]] * 30)))
    made = tmp_path / "model"
    code, _, said = groupnoise("fit", train, "--setting", "rs", "-o", made, "--quiet", *FITTING)
    assert code == 0, said
    groupnoise("export", made, "--output", tmp_path / "artifact")
    code, out, said = groupnoise(
        "recall", "artifact", "--histories", "log.csv", "--output", "recalled.jsonl", "--quiet",
        *words,
    )  # fmt: skip
    assert code == 0, said + out


def test_recall_says_which_columns_it_took(tmp_path, groupnoise):
    log = write_variant("user_id headers", tmp_path)
    made = tmp_path / "model"
    groupnoise("fit", log, "--setting", "rs", "-o", made, "--quiet", *FITTING)
    groupnoise("export", made, "--output", "artifact")
    _, _, fitted = groupnoise("data", "describe", log, "--setting", "rs")
    code, _, recalled = groupnoise(
        "recall", "artifact", "--histories", log, "--output", "recalled.jsonl", "--quiet"
    )
    assert code == 0, recalled
    assert "took column 'user_id' as the user" in fitted
    assert "columns as when the model was fitted: user 'user_id'" in recalled


def test_every_command_knows_the_columns_of_the_log_that_was_learned(tmp_path, groupnoise):
    rows = rows_of([[str((user + step) % 9) for step in range(6)] for user in range(120)])
    text = as_text(rows)
    header, _, body = text.partition("\n")
    names = dict(zip(("user", "item", "time"), ("Kunde", "Artikel", "Zeit"), strict=True))
    log = tmp_path / "log.csv"
    log.write_text(",".join(names[each] for each in header.split(",")) + "\n" + body)
    made = tmp_path / "model"
    words = [word for part, name in names.items() for word in (f"--{part}", name)]
    groupnoise("fit", log, "--setting", "rs", "-o", made, "--quiet", *words, *FITTING)
    groupnoise("export", made, "--output", "artifact")
    asked = ("recall", "artifact", "--quiet", "--histories")
    code, _, said = groupnoise(*asked, log, "--output", "remembered.jsonl")
    assert code == 0, said
    code, _, said = groupnoise(*asked, log, *words, "--output", "named.jsonl")
    assert code == 0, said
    answers = [(tmp_path / name).read_text() for name in ("remembered.jsonl", "named.jsonl")]
    assert answers[0] == answers[1]
    (tmp_path / "lists.jsonl").write_text('{"user": "a", "items": ["1", "2"]}\n')
    code, _, said = groupnoise(*asked, tmp_path / "lists.jsonl", "--output", "lists.out.jsonl")
    assert code == 0, said
    code, _, said = groupnoise(*asked, log, "--user", "Wer", "--output", "wrong.jsonl")
    assert code == 2
    assert "Wer" in said
    header, _, body = log.read_text().partition("\n")
    (tmp_path / "new.csv").write_text(f"Wer,{header.partition(',')[2]}\n{body}")
    shown = "Wer,Artikel,propensity,clicked\n0,1,0.5,1\n1,2,0.5,0\n"
    (tmp_path / "shown.csv").write_text(shown)
    about = ("shown.csv", "--user", "Wer", "--item", "Artikel", "--model", made)
    for words in (
        ("fit", log, "--from", made, "-o", "night"),
        ("export", made, "-o", "usual", "--histories"),
        ("replay", *about, "--histories"),
    ):
        given = () if words[0] == "fit" else (log,)
        code, _, said = groupnoise(*words, *given)
        assert code == 0, said
        assert "as when the model was fitted: user 'Kunde', item 'Artikel', time 'Zeit'" in said
        if not given:
            continue
        code, _, said = groupnoise(*words, "new.csv")
        assert code == 2
        assert "name it with --histories-user" in said
        code, _, said = groupnoise(*words, "new.csv", "--histories-user", "Wer")
        assert code == 0, said
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    code, _, said = groupnoise(*asked, tmp_path / "other.csv", "--output", "wrong.jsonl")
    assert code == 2
    assert "looks like the user" in said


@pytest.mark.parametrize(
    ("learned", "asked"),
    [
        (["1", "2", "3", "4", "5", "6x", "7", "8", "9"], ["1", "2", "3", "4", "5"]),
        (["1", "2", "3", "4", "5", "6", "7", "8", "9"], ["1", "2", "3", "x"]),
    ],
    ids=["text, then numbers alone", "numbers, then text"],
)
def test_ids_that_are_numbers_in_one_log_and_text_in_another_are_the_same(
    learned, asked, tmp_path, groupnoise
):
    train = [[learned[(user + step) % 9] for step in range(6)] for user in range(40)]
    new = [[asked[(user + step) % len(asked)] for step in range(4)] for user in range(8)]
    (tmp_path / "train.csv").write_text(as_text(rows_of(train)))
    (tmp_path / "new.csv").write_text(as_text(rows_of(new)))
    for words in (
        ("fit", "train.csv", "--setting", "rs", "-o", "model", "--quiet", *FITTING),
        ("evaluate", "model", "new.csv", "--setting", "rs"),
        ("predict", "model", "new.csv", "--setting", "rs", "-o", "predicted.jsonl", "--top", 9),
        ("export", "model", "--output", "artifact"),
        ("recall", "artifact", "--histories", "new.csv", "--output", "recalled.jsonl", "--top",
         9, "--quiet"),
    ):  # fmt: skip
        code, out, said = groupnoise(*words)
        assert code == 0, f"{words[0]}: {said}{out}"
    assert is_alike(tmp_path / "predicted.jsonl", tmp_path / "recalled.jsonl")


@pytest.mark.parametrize("length", [129, 500, 1000])
def test_a_long_item_id_survives_the_whole_journey(length, tmp_path, groupnoise):
    histories = shop_histories(30)
    long = {f"item {n:02}": f"item {n:02} ".ljust(length, "é") for n in range(0, 40, 7)}
    rows = [(user, long.get(item, item), time) for user, item, time in rows_of(histories)]
    (tmp_path / "log.csv").write_text(as_text(rows))
    for words in (
        ("fit", "log.csv", "--setting", "rs", "-o", "model", "--quiet", *FITTING),
        ("predict", "model", "log.csv", "--setting", "rs", "-o", "predicted.jsonl", "--top", 40),
        ("export", "model", "--output", "artifact"),
        ("recall", "artifact", "--histories", "log.csv", "--output", "recalled.jsonl", "--top",
         40, "--quiet"),
    ):  # fmt: skip
        code, out, said = groupnoise(*words)
        assert code == 0, f"{words[0]}: {said}{out}"
    answers = read_answers(tmp_path / "recalled.jsonl")
    assert any(item in long.values() for items, _ in answers.values() for item in items)
    assert is_alike(tmp_path / "predicted.jsonl", tmp_path / "recalled.jsonl")


def test_an_item_id_beyond_the_limit_is_refused_at_reading_with_its_row(tmp_path, groupnoise):
    (tmp_path / "log.csv").write_text(as_text([("u", "x" * 1001, 0), ("u", "b", 1)]))
    code, _, said = groupnoise("fit", "log.csv", "--setting", "rs", "-o", "model", "--quiet")
    assert code == 2
    assert "log.csv" in said
    assert "1000" in said


def test_the_whole_way_needs_no_setting(command, tmp_path):
    rows = ["user,item"] + [
        f"{user},{(user * 7 + 3 * n) % 12}" for user in range(12) for n in range(5)
    ]
    (tmp_path / "clicks.csv").write_text("\n".join(rows) + "\n")
    told = command("fit", "clicks.csv", "-o", "model", "-p", "max_epochs=1", "-p", "dim=4")
    assert "read as clicks" in told.err
    assert "NDCG" in command("evaluate", "model", "clicks.csv").out


def test_what_was_left_out_of_a_log_is_left_out_by_every_command(command, tmp_path):
    rows = [
        (user, item, time, 1 + (user + time) % 5)
        for user, item, time in ((int(u[1:]), i, t) for u, i, t in rows_of(shop_histories(40)))
        for _ in range(2)  # every click is written twice
    ]
    header = "kunde,artikel,time,bewertung"
    (tmp_path / "log.csv").write_text(as_text(rows, header=header))
    said = command("fit", "log.csv", "-o", "plain", "-q", "--method", "item-cf").err
    assert "rated below 3 of 5 in 'bewertung'" in said
    assert "--repeats merge_adjacent" in said
    options = ["--min-rating", "3", "--repeats", "merge_adjacent"]
    options += [word for each in ("dim=6", "max_epochs=1", "encoder=null") for word in ("-p", each)]
    said = command("fit", "log.csv", "-o", "model", "-q", *options, "-p", "linear=null").err
    assert "rated below" not in said
    assert "--repeats" not in said
    command("export", "model", "-o", "artifact")
    for log in ("log.csv", "unrated.csv"):
        if log == "unrated.csv":
            unrated = [row[:3] for row in rows]
            (tmp_path / log).write_text(as_text(unrated, header="kunde,artikel,time"))
        told = command("predict", "model", log, "-o", "predicted.csv", "--top", "5")
        recall = ["recall", "artifact", "--histories", log, "-o", "recalled.csv", "--top", "5"]
        command(*recall, "-q")
        found = [
            [line.split(",")[:3] for line in (tmp_path / name).read_text().splitlines()]
            for name in ("predicted.csv", "recalled.csv")
        ]
        assert found[0] == found[1]
        is_rated = log == "log.csv"
        assert ("here are none, so all rows count" in told.err) != is_rated


def test_a_log_that_is_not_utf8_is_recalled_as_it_was_read(command, tmp_path):
    lines = as_text(rows_of(shop_histories(30)), header="Schlüssel,artikel,time")
    (tmp_path / "log.csv").write_bytes(lines.encode("cp1252"))
    read = ["--encoding", "cp1252", "--user", "Schlüssel"]
    command("fit", "log.csv", "-o", "model", "-q", "--method", "item-cf", *read)
    command("export", "model", "-o", "artifact")
    command("recall", "artifact", "--histories", "log.csv", "-o", "recalled.csv", "-q")
    assert (tmp_path / "recalled.csv").read_text().startswith("user,rank,item")


def test_kinds_of_rows_that_were_kept_are_kept_by_every_command(command, tmp_path):
    rows = [
        (*row, ("view", "cart")[number % 3 == 0])
        for number, row in enumerate(rows_of(shop_histories(40)))
    ]
    (tmp_path / "log.csv").write_text(as_text(rows, header="user,item,time,event"))
    kept = [row for row in rows if row[3] == "cart"]
    (tmp_path / "carts.csv").write_text(as_text([row[:3] for row in kept]))
    said = command("fit", "log.csv", "--method", "item-cf", "-o", "all", "-q").err
    assert "--only event=" in said
    options = ["--method", "item-cf", "-o", "model", "-q", "--only", "event=cart"]
    said = command("fit", "log.csv", *options).err
    assert f"kept {len(kept)} of {len(rows)} rows: event=cart" in said
    command("export", "model", "-o", "artifact")
    for log in ("log.csv", "carts.csv"):
        told = command("predict", "model", log, "-o", f"{log}.predicted.csv", "--top", "5").err
        command("recall", "artifact", "--histories", log, "-o", f"{log}.recalled.csv", "-q")
        assert ("the model kept only event=cart; this file has no such column" in told) == (
            log == "carts.csv"
        )
    for end in ("predicted.csv", "recalled.csv"):
        first, second = (
            (tmp_path / f"{log}.{end}").read_text() for log in ("log.csv", "carts.csv")
        )
        assert first == second
