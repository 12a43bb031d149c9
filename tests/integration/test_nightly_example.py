"""The nightly example: a first night, a better one, and one that must not be served."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from groupnoise.recall import Registry, open_artifact

EXAMPLES = Path(__file__).parents[2] / "examples"
FIT = ["-p", "normalization=click", "-p", "dim=16", "-p", "max_epochs=10"]
SPOILED = ["-p", "learning_rate=1e-6", "-p", "init=random"]
"""Somebody had an idea, and the model learns nothing."""


def write_log(path, n_clicks):
    """Write clicks of 300 users, who walk around ten aisles of a dozen items each."""
    generator = np.random.default_rng(0)
    aisle = generator.integers(10, size=300)
    user, step = generator.integers([300, 12], size=(n_clicks, 2)).T
    item, time = aisle[user] * 12 + step, np.arange(n_clicks)
    pl.DataFrame({"user": user, "item": item, "time": time}).write_parquet(path)


def run_night(log, work, night, *words):
    line = [sys.executable, EXAMPLES / "nightly.py", log, work, night, "--", *words]
    return subprocess.run(
        list(map(str, line)),
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture
def night_here(groupnoise, monkeypatch, capsys):
    """The same night with its commands in this process, whose libraries are loaded."""
    spec = importlib.util.spec_from_file_location("nightly", EXAMPLES / "nightly.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def command(*words):
        code, said, error = groupnoise(*words)
        assert not code, error
        return said

    monkeypatch.setattr(module, "groupnoise", command)

    def run(log, work, night, *words):
        monkeypatch.setattr(sys, "argv", ["nightly.py", str(log), str(work), night, "--", *words])
        module.main()
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_a_night_is_promoted_or_kept(tmp_path, night_here):
    log, work = tmp_path / "clicks.parquet", tmp_path / "work"
    write_log(log, 6000)
    first = run_night(log, work, "monday", *FIT)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("monday: promoted")
    monday = open_artifact(work / "registry").version

    write_log(log, 7000)  # the same clicks, and a day more
    assert night_here(log, work, "tuesday").startswith("tuesday: promoted")
    served = open_artifact(work / "registry").version
    assert served != monday
    fresh = pl.read_parquet(work / "tuesday" / "fresh.parquet")
    assert len(fresh) == 950

    write_log(log, 7500)
    said = night_here(log, work, "wednesday", *FIT, *SPOILED)
    assert said.startswith("wednesday: kept")
    assert open_artifact(work / "registry").version == served
    assert Registry(work / "registry").current == served
    assert json.loads((work / "served.json").read_text())["model"].endswith("tuesday/model")

    log.unlink()
    fourth = run_night(log, work, "thursday")
    assert fourth.returncode != 0
    assert open_artifact(work / "registry").version == served


_AIRFLOW = """
import sys, types

class DAG:
    def __init__(self, **options): self.options, self.tasks = options, []
    def __enter__(self): DAG.current = self; return self
    def __exit__(self, *error): pass

class PythonOperator:
    def __init__(self, *, task_id, python_callable, op_kwargs):
        self.task_id, self.after = task_id, []
        DAG.current.tasks.append(self)
        python_callable.__call__  # it can be called
    def __rshift__(self, other): other.after.append(self.task_id); return other

for name in ("airflow", "airflow.operators", "airflow.operators.python"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["airflow"].DAG = DAG
sys.modules["airflow.operators.python"].PythonOperator = PythonOperator
"""
_SHOW = """
import nightly_airflow
tasks = nightly_airflow.dag.tasks if nightly_airflow.DAG else []
print([(task.task_id, task.after) for task in tasks])
"""


@pytest.mark.parametrize("before", ["", _AIRFLOW], ids=["without Airflow", "with a stand-in"])
def test_the_tasks_of_airflow_follow_each_other(before):
    done = subprocess.run(
        [sys.executable, "-c", before + _SHOW], cwd=EXAMPLES, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    steps = ["split", "convert", "fit", "evaluate", "export", "decide"]
    expected = [(step, steps[:number][-1:]) for number, step in enumerate(steps)] if before else []
    assert done.stdout.strip() == str(expected)


def test_a_log_of_other_columns_gets_one_sentence(tmp_path):
    log, work = tmp_path / "clicks.csv", tmp_path / "work"
    log.write_text("visitor,sku,ts\nann,tea,2026-01-31\n")
    night = run_night(log, work, "monday")
    assert night.returncode
    assert night.stderr.startswith(f"{log} needs columns user, item and time, a number; it has")
    assert "visitor (String)" in night.stderr
    assert "Traceback" not in night.stderr
    assert not work.exists()
