"""What is exported scores as the model it came from."""

import numpy as np
import pytest

from groupnoise.cli.export import write_recommender
from groupnoise.clicks import MaxMatchingRecommender
from groupnoise.recall import RecallOptions, open_artifact


@pytest.mark.parametrize("recency", [0.0, 0.5])
@pytest.mark.parametrize("shared", [True, False])
def test_an_artifact_ranks_as_its_model_does(tmp_path, recency, shared):
    rng = np.random.default_rng(0)
    histories = [rng.integers(30, size=8).tolist() for _ in range(80)]
    model = MaxMatchingRecommender(
        dim=8, shared=shared, recency=recency, max_epochs=3, n_negatives=8, random_state=0
    ).fit(histories)
    write_recommender(model, tmp_path / "artifact", titles=None, categories=None, card={})
    asked = [history[:size] for size, history in zip((1, 3, 5, 8), histories, strict=False)]
    ids, scores = model.recommend(asked, top=5)
    answer = open_artifact(tmp_path / "artifact").recall(asked, RecallOptions(top=5))
    np.testing.assert_array_equal(model.items_[answer.positions], ids)
    np.testing.assert_allclose(answer.scores, scores, rtol=1e-3, atol=1e-3)
