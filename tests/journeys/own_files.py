"""Files as people have them: bags, candidate labels and clicks, each in many shapes."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import datetime

import numpy as np
import pytest

CLASSES = ("cat", "dog", "emu")
FEATURES = ("f0", "f1", "f2", "f3")
N_BAGS = 60
N_ROWS = 90
N_USERS = 40


def write_csv(path, columns, rows, *, separator=","):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
        if columns is not None:
            writer.writerow(columns)
        writer.writerows(rows)
    return path


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


# --- bags ---------------------------------------------------------------------------------------


def bag_rows(n_bags=N_BAGS, seed=0):
    """(bag, label, truth, four features) per instance; the first instance carries the label."""
    rng = np.random.default_rng(seed)
    rows = []
    for bag in range(n_bags):
        label = bag % len(CLASSES)
        for position in range(int(rng.integers(2, 5))):
            features = rng.normal(size=len(FEATURES)) * 0.4
            features[label] += 4 * (position == 0)
            truth = CLASSES[label] if position == 0 else ""
            rows.append((f"b{bag:03d}", CLASSES[label], truth, *features.round(4).tolist()))
    return rows


BAG_COLUMNS = ("bag", "label", "truth", *FEATURES)


def bags_csv(folder):
    return write_csv(folder / "bags.csv", BAG_COLUMNS, bag_rows()), []


def bags_semicolons(folder):
    path = write_csv(folder / "bags.csv", BAG_COLUMNS, bag_rows(), separator=";")
    return path, ["--separator", ";"]


def bags_other_names(folder):
    columns = ("picture", "kind", "right", *FEATURES)
    path = write_csv(folder / "pictures.csv", columns, bag_rows())
    return path, ["--group", "picture", "--label", "kind", "--truth", "right", "--features", "f*"]


def bags_without_header(folder):
    path = write_csv(folder / "bags.csv", None, [(r[0], r[1], *r[3:]) for r in bag_rows()])
    return path, ["--no-header", "--group", "column_1", "--label", "column_2"]


def bags_parquet(folder):
    import polars as pl

    frame = pl.DataFrame(bag_rows(), schema=list(BAG_COLUMNS), orient="row")
    frame.write_parquet(folder / "bags.parquet")
    return folder / "bags.parquet", []


def bags_jsonl(folder):
    lines = [json.dumps(dict(zip(BAG_COLUMNS, row, strict=True))) for row in bag_rows()]
    path = folder / "bags.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path, []


def bags_npz(folder):
    rows = bag_rows()
    bags = np.array([int(row[0][1:]) for row in rows])
    labels = np.array([CLASSES.index(row[1]) for row in rows])
    truth = np.array([CLASSES.index(row[2]) if row[2] else -1 for row in rows])
    np.savez(
        folder / "bags.npz",
        X=np.array([row[3:] for row in rows]),
        bag=bags,
        bag_label=labels,
        instance_label=truth,
        class_names=np.array(CLASSES),
    )
    return folder / "bags.npz", []


def bags_text(folder):
    """Blanks between the cells, remarks of two kinds, a header."""
    lines = ["% bags of instances", "# from a laboratory", "bag label " + " ".join(FEATURES)]
    for number, row in enumerate(bag_rows()):
        if number == 5:
            lines.append("# a remark between two rows")
        lines.append(f"{row[0]}  {row[1]} " + " ".join(map(str, row[3:])))
    path = folder / "bags.txt"
    path.write_text("\n".join(lines) + "\n")
    return path, []


def bags_text_without_header(folder):
    lines = ["% Musk-like: bag, label, numbers"]
    lines += [" ".join(map(str, (row[0], row[1], *row[3:]))) for row in bag_rows()]
    path = folder / "bags.txt"
    path.write_text("\n".join(lines) + "\n")
    return path, ["--no-header", "--group", "column_1", "--label", "column_2"]


def bags_text_with_commas(folder):
    path = write_csv(folder / "bags.txt", BAG_COLUMNS, bag_rows())
    path.write_text("% made by hand\n" + path.read_text())
    return path, ["--separator", ","]


BAG_FILES = {
    writer.__name__.removeprefix("bags_"): writer
    for writer in (
        bags_csv, bags_semicolons, bags_other_names, bags_without_header, bags_parquet, bags_jsonl,
        bags_npz, bags_text, bags_text_without_header, bags_text_with_commas,
    )
}  # fmt: skip


# --- candidate labels -----------------------------------------------------------------------------


def candidate_rows(n_rows=N_ROWS, seed=0):
    """(four features, candidates, truth) per row."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n_rows):
        truth = number % len(CLASSES)
        features = rng.normal(size=len(FEATURES)) * 0.4
        features[truth] += 4
        other = int(rng.integers(len(CLASSES)))
        candidates = [CLASSES[k] for k in sorted({truth, other})]
        rows.append((features.round(4).tolist(), candidates, CLASSES[truth]))
    return rows


def candidates_with(spell):
    """Write the candidates of a row as one cell."""

    def write(folder):
        lines = [[*features, spell(c), truth] for features, c, truth in candidate_rows()]
        columns = [*FEATURES, "candidates", "truth"]
        return write_csv(folder / "rows.csv", columns, lines), []

    return write


def as_weights(candidates):
    return json.dumps({label: round(1 / len(candidates), 2) for label in candidates})


def candidates_columns(folder):
    columns = [*FEATURES, *(f"candidate_{label}" for label in CLASSES), "truth"]
    lines = [
        [*features, *(int(label in c) for label in CLASSES), truth]
        for features, c, truth in candidate_rows()
    ]
    return write_csv(folder / "rows.csv", columns, lines), []


def candidates_jsonl(folder, spell=list):
    lines = [
        json.dumps({**dict(zip(FEATURES, f, strict=True)), "candidates": spell(c), "truth": t})
        for f, c, t in candidate_rows()
    ]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path, []


def candidates_jsonl_weights(folder):
    return candidates_jsonl(folder, lambda candidates: dict.fromkeys(candidates, 0.5))


def candidates_other_names(folder):
    lines = [[*features, "/".join(c), truth] for features, c, truth in candidate_rows()]
    path = write_csv(folder / "rows.csv", [*FEATURES, "guesses", "right"], lines)
    words = ["--candidates", "guesses", "--truth", "right", "--label-separator", "/"]
    return path, words


def candidates_npz(folder):
    rows = candidate_rows()
    np.savez(
        folder / "rows.npz",
        X=np.array([features for features, _, _ in rows]),
        candidates=np.array([[int(label in c) for label in CLASSES] for _, c, _ in rows]),
        truth=np.array([CLASSES.index(truth) for _, _, truth in rows]),
        class_names=np.array(CLASSES),
    )
    return folder / "rows.npz", []


def candidates_xlsx(folder):
    """As people make them: a date in the first sheet, an empty row, a second sheet."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append([*FEATURES, "candidates", "truth", "seen"])
    for number, (features, candidates, truth) in enumerate(candidate_rows()):
        if number == 3:
            sheet.append([])
        sheet.append(
            [*features, "|".join(candidates), truth, datetime(2024, 5, 1, 12, number % 60)]
        )
    book.create_sheet("empty")
    book.save(folder / "rows.xlsx")
    return folder / "rows.xlsx", []


CANDIDATE_FILES = {
    "bars": candidates_with("|".join),
    "json_lists": candidates_with(json.dumps),
    "python_lists": candidates_with(repr),
    "json_weights": candidates_with(as_weights),
    "columns": candidates_columns,
    "jsonl": candidates_jsonl,
    "jsonl_weights": candidates_jsonl_weights,
    "other_names": candidates_other_names,
    "npz": candidates_npz,
    "xlsx": candidates_xlsx,
}


# --- clicks ---------------------------------------------------------------------------------------


def click_rows(n_users=N_USERS, seed=0):
    """(user, item, time) in order; each user walks along a ring of twelve items."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        begin = int(rng.integers(12))
        for step in range(int(rng.integers(4, 8))):
            rows.append((f"u{user:02d}", f"i{(begin + step) % 12:02d}", 1_600_000_000 + 60 * step))
    return rows


def clicks_csv(folder):
    return write_csv(folder / "clicks.csv", ("user", "item", "time"), click_rows()), []


def clicks_unsorted(folder):
    rows = click_rows()
    order = np.random.default_rng(1).permutation(len(rows))
    columns = ("item_id", "timestamp", "user_id")
    mixed = [(rows[k][1], rows[k][2], rows[k][0]) for k in order]
    return write_csv(folder / "clicks.csv", columns, mixed), []


def clicks_without_header(folder):
    rows = [(user, item, 5.0, time) for user, item, time in click_rows()]
    return write_csv(folder / "ratings.csv", None, rows), []


def clicks_other_names(folder):
    path = write_csv(folder / "visits.csv", ("who", "what", "when"), click_rows())
    return path, ["--user", "who", "--item", "what", "--time", "when"]


def clicks_dates(folder):
    rows = [(u, i, f"{13 + (t % 600) // 60}/02/2021 10:00") for u, i, t in click_rows()]
    return write_csv(folder / "clicks.csv", ("user", "item", "date"), rows), []


def clicks_tsv(folder):
    path = write_csv(folder / "clicks.tsv", ("user", "item", "time"), click_rows(), separator="\t")
    return path, []


def clicks_pairs(folder):
    path = folder / "clicks.txt"
    lines = [f"{user} {item}" for user, item, _ in click_rows()]
    path.write_text("% user item\n" + "\n".join(lines) + "\n")
    return path, []


def clicks_lines(folder):
    histories = {}
    for user, item, _ in click_rows():
        histories.setdefault(user, []).append(item)
    path = folder / "clicks.txt"
    path.write_text("".join(f"{user} {' '.join(items)}\n" for user, items in histories.items()))
    return path, []


def clicks_gzip(folder):
    path, words = clicks_csv(folder)
    packed = folder / "clicks.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed, words


def clicks_jsonl(folder):
    lines = [json.dumps({"user_id": u, "asin": i, "timestamp": t}) for u, i, t in click_rows()]
    path = folder / "clicks.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path, []


def clicks_parquet(folder):
    import polars as pl

    frame = pl.DataFrame(click_rows(), schema=["user", "item", "time"], orient="row")
    frame.write_parquet(folder / "clicks.parquet")
    return folder / "clicks.parquet", []


CLICK_FILES = {
    writer.__name__.removeprefix("clicks_"): writer
    for writer in (
        clicks_csv, clicks_unsorted, clicks_without_header, clicks_other_names, clicks_dates,
        clicks_tsv, clicks_pairs, clicks_lines, clicks_gzip, clicks_jsonl, clicks_parquet,
    )
}  # fmt: skip

FILES = {
    **{("mil", shape): writer for shape, writer in BAG_FILES.items()},
    **{("pll", shape): writer for shape, writer in CANDIDATE_FILES.items()},
    **{("rs", shape): writer for shape, writer in CLICK_FILES.items()},
}
QUICK = {
    "mil": ["-p", "max_epochs=2"],
    "pll": ["-p", "max_epochs=2", "-p", "encoder=linear"],
    "rs": ["-p", "max_epochs=2", "-p", "dim=8", "-p", "normalization=click"],
}
"""Parameters with which a journey takes a second."""
