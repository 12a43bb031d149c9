import torch
from torch.testing import assert_close

from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.model import item_model

N_IDS, DIM = 23, 3
N_MANY_IDS = 3 * (1 << 16) + 5


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
