"""What workers compute together, in one run of real processes that all tests here read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.model import item_model
from worker_processes import run_workers

N_IDS, DIM = 23, 3
N_MANY_IDS = 3 * (1 << 16) + 5
SCRIPT = Path(__file__).parent / "on_every_worker.py"


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.nightly)])
def results(request, tmp_path_factory):
    """What each worker computed, by rank."""
    folder = tmp_path_factory.mktemp("workers")
    run_workers(SCRIPT, folder, count=request.param)
    return [torch.load(folder / f"{rank}.pt") for rank in range(request.param)]


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


def test_the_joint_log_sum_exp_and_its_gradient_are_those_of_one_process(results):
    parts = [result["joint"] for result in results]
    levels = torch.stack([part["levels"] for part in parts]).requires_grad_()
    counting = torch.stack([part["counts"] for part in parts])
    expected = levels[counting].logsumexp(0)
    # Every worker's loss reads the joint level, so what flows back is the sum of all of them.
    expected.backward(torch.stack([part["upstream"] for part in parts]).sum(0))
    for part, gradient in zip(parts, levels.grad, strict=True):
        assert_close(part["result"], expected.detach())
        assert_close(part["gradient"], gradient)


def interleaved(parts):
    """Put the rows r, r + n, r + 2n, ... that worker r holds back into one table."""
    whole = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
    for rank, part in enumerate(parts):
        whole[rank :: len(parts)] = part
    return whole


def column(results, kind, name):
    return [result[kind][name] for result in results]


def test_looked_up_rows_are_those_of_a_plain_table(results):
    plain = EmbeddingEncoder(N_IDS, DIM, generator=torch.Generator().manual_seed(0)).double()
    for result in results:
        looked_up = result["look_up"]
        assert_close(looked_up["values"], plain(looked_up["ids"]).detach(), rtol=0, atol=0)


def test_gradients_reach_their_owner_as_in_a_plain_table(results):
    plain = EmbeddingEncoder(N_IDS, DIM, generator=torch.Generator().manual_seed(0)).double()
    ids = torch.cat(column(results, "look_up", "ids"))
    plain(ids).backward(torch.cat(column(results, "look_up", "upstream")))
    gathered = interleaved(column(results, "look_up", "gradient"))
    assert_close(gathered, plain.weight.grad.to_dense(), rtol=1e-12, atol=1e-12)


def test_only_rows_that_someone_looked_up_have_a_gradient(results):
    ids = torch.cat(column(results, "look_up", "ids")).unique()
    for rank, result in enumerate(results):
        rows = result["look_up"]["rows_with_gradient"] * len(results) + rank
        assert rows.tolist() == ids[ids % len(results) == rank].tolist()


def test_each_row_lies_with_one_worker(results):
    shards = column(results, "look_up", "shard")
    assert sum(map(len, shards)) == N_IDS
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_initial_rows_are_those_one_process_draws(results):
    generator = torch.Generator().manual_seed(3)
    plain = EmbeddingEncoder(N_MANY_IDS, DIM, std=0.5, generator=generator)
    assert torch.equal(interleaved(column(results, "large", "shard")), plain.weight.detach())
    for result in results:
        assert torch.equal(result["large"]["generator"], generator.get_state())


def plain_items():
    generator = torch.Generator().manual_seed(0)
    model = item_model(N_IDS, DIM, shared=True, has_bias=True, std=0.1, generator=generator)
    with torch.no_grad():
        model.bias.copy_(torch.arange(N_IDS).unsqueeze(-1))
    return model


def test_objects_targets_and_biases_come_in_one_exchange_unchanged(results):
    model = plain_items()
    for result in results:
        items = result["items"]
        assert torch.equal(items["vectors"], model.encode_objects(items["objects"]).detach())
        assert torch.equal(items["target_vectors"], model.encode_targets(items["targets"]).detach())
        assert items["bias_together"].tolist() == items["targets"].tolist()


def test_a_bias_asked_for_alone_is_the_same(results):
    for result in results:
        assert torch.equal(result["items"]["bias_alone"], result["items"]["bias_together"])


def test_rows_looked_up_as_objects_alone_leave_their_bias_untouched(results):
    gradient = interleaved(column(results, "items", "bias_gradient")).squeeze(-1)
    targets = torch.cat(column(results, "items", "targets"))
    assert gradient.tolist() == torch.bincount(targets, minlength=N_IDS).tolist()
    for rank, result in enumerate(results):
        rows = result["items"]["bias_rows_with_gradient"] * len(results) + rank
        assert set(rows.tolist()) <= set(targets.tolist())


def test_gathering_gives_the_first_worker_the_whole_model(results):
    for name, weight in plain_items().state_dict().items():
        assert torch.equal(results[0]["items"][f"whole.{name}"], weight)
    for others in results[1:]:
        assert not any(name.startswith("whole.") for name in others["items"])
