"""Jobs: order, progress, threads and failures, in this process and in others."""

from functools import partial
from operator import floordiv

import pytest
from threadpoolctl import threadpool_info

from groupnoise.exceptions import ParameterError
from groupnoise.reproduce.running import run_jobs


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_come_in_the_order_of_the_jobs(n_jobs):
    assert run_jobs([partial(pow, 2, place) for place in range(5)], n_jobs=n_jobs) == [
        *(1, 2, 4, 8, 16)
    ]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_result_is_told_once(n_jobs):
    told = []
    run_jobs([partial(pow, 2, place) for place in range(4)], n_jobs=n_jobs, on_result=told.append)
    assert sorted(told) == [1, 2, 4, 8]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_job_has_one_thread(n_jobs):
    import torch

    assert torch.get_num_threads() == 1  # loads the libraries that keep threads
    pools = run_jobs([threadpool_info] * 2, n_jobs=n_jobs)
    assert {pool["num_threads"] for job in pools for pool in job} <= {1}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_failure_of_a_job_reaches_the_caller(n_jobs):
    with pytest.raises(ZeroDivisionError):
        run_jobs([partial(floordiv, 1, 0)], n_jobs=n_jobs)


def test_no_jobs_give_no_results():
    assert run_jobs([], n_jobs=2) == []


def test_less_than_one_process_is_refused():
    with pytest.raises(ParameterError, match="n_jobs must be a whole number of at least 1"):
        run_jobs([int], n_jobs=0)
