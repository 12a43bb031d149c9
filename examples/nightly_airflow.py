"""`nightly.py` as Airflow tasks: put both files into the DAG folder.

The environment variables LOG and WORK name the click log and the working folder. The file also
imports without Airflow, then without a `dag`, so that it can be tested anywhere.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import nightly

try:
    from airflow import DAG

    try:
        from airflow.providers.standard.operators.python import PythonOperator  # Airflow 3
    except ImportError:
        from airflow.operators.python import PythonOperator
except ImportError:
    DAG = None

LOG, WORK = Path(os.environ.get("LOG", "clicks.parquet")), Path(os.environ.get("WORK", "work"))
NIGHT = "{{ ds }}"
"""Airflow's template for the day that a run stands for."""


def split(night: str) -> None:
    nightly.split(LOG, WORK, night)


def convert(night: str) -> None:
    nightly.convert(WORK, night)


def fit(night: str) -> None:
    nightly.fit(WORK, night)


def evaluate(night: str) -> None:
    nightly.evaluate(WORK, night)


def export(night: str) -> None:
    nightly.export(WORK, night)


def decide(night: str) -> None:
    nightly.decide(WORK, night)


STEPS = (split, convert, fit, evaluate, export, decide)

if DAG is not None:
    with DAG(
        dag_id="groupnoise_nightly",
        schedule="0 2 * * *",
        start_date=datetime(2026, 1, 1),
        catchup=False,
        max_active_runs=1,  # a night compares itself with the one before
        default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
    ) as dag:
        before = None
        for step in STEPS:
            task = PythonOperator(
                task_id=step.__name__, python_callable=step, op_kwargs={"night": NIGHT}
            )
            if before is not None:
                before >> task
            before = task
