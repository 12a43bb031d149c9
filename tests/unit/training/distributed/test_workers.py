import numpy as np
import torch


def test_shares_of_a_batch_cover_it_once(results):
    for number, size in enumerate((1, 2, 5, 8)):
        taken = [row for result in results for row in result["shares"][number]["rows"]]
        if size >= len(results):
            assert sorted(taken) == list(range(10, 10 + size))


def test_a_worker_without_a_share_is_lent_a_row_that_does_not_count(results):
    assert all(result["shares"][0]["rows"] == [10] for result in results)
    assert all(result["shares"][0]["mean"] == 10.0 for result in results)


def test_parts_of_the_loss_add_up_to_the_mean_of_uneven_batches(results):
    for number, size in enumerate((1, 2, 5, 8)):
        expected = float(np.mean(np.arange(size) + 10))
        assert all(abs(r["shares"][number]["mean"] - expected) < 1e-12 for r in results)


def test_values_are_summed_over_all_workers(results):
    count = len(results)
    assert all(r["sums"] == (count, 10.0 * count * (count - 1) / 2) for r in results)


def test_gradients_of_shared_parameters_are_summed(results):
    count = len(results)
    hit = torch.zeros(4, 3)
    hit[:count] = 1.0
    for result in results:
        assert torch.equal(
            result["gradients"]["dense"], torch.full((3, 2), count * (count + 1) / 2)
        )
        assert torch.equal(result["gradients"]["sparse"], hit)
