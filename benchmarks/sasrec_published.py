"""SASRec on Video, leave-one-out, with the loss of its paper, and the published result.

    python benchmarks/sasrec_published.py [EPOCHS]        # 80 by default; some ten minutes
    python benchmarks/sasrec_published.py --report        # from what is done

The published loss is binary, with one uniform negative per position; width 50 and dropout .5 are
the paper's for sparse logs. Popularity tells whether the protocol is the same.
Test figures are taken down every tenth epoch and choose nothing: the epoch is that of the best
validation among them.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _record import write_result
from recommender_agreement import SASREC_EXPECTED, VIDEO, load_clicks, measured, without_last
from torch import Tensor

from groupnoise import Groups
from groupnoise.clicks import split_clicks
from groupnoise.clicks.baselines import PopularityRecommender, SASRecRecommender
from groupnoise.reproduce.jobs import append_line, read_lines

LOG = Path("runs/sasrec_published.jsonl")
OPTIONS: dict[str, Any] = {"dim": 50, "dropout": 0.5, "patience": 20, "random_state": 0}
TEST_EVERY = 10


@dataclass(kw_only=True, eq=False, repr=False)
class BinarySASRec(SASRecRecommender):
    """SASRec with its published loss in place of a softmax over many negatives."""

    def _batch_loss(self, clicks: Tensor, only_target: bool, noise: torch.Generator) -> Tensor:
        states, targets = self._trained_positions(clicks, only_target)
        table = self.network_.items.weight[: self.n_items_]
        drawn = torch.randint(self.n_items_, targets.shape, generator=noise)
        right = (states * table[targets]).sum(-1)
        wrong = (states * table[drawn]).sum(-1)
        return (F.softplus(-right) + F.softplus(wrong)).mean()


def run(max_epochs: int) -> None:
    """Measure popularity, then train, and log every epoch."""
    data = load_clicks(VIDEO)
    split = split_clicks(data.histories, "leave_one_out", size=SASRecRecommender().window_size)
    tested = data.histories.subset(split.test.users)
    short = np.setdiff1d(np.arange(len(data.histories)), split.test.users)
    training = Groups.concat([without_last(without_last(tested)), data.histories.subset(short)])
    LOG.parent.mkdir(exist_ok=True)
    LOG.unlink(missing_ok=True)
    popularity = PopularityRecommender().fit(training, item_ids=data.item_ids)
    figures = measured(popularity, split.test.groups, tested)
    append_line(LOG, {"method": "popularity", **figures})
    model = BinarySASRec(max_epochs=max_epochs, **OPTIONS)
    started = time.process_time()

    def follow(record: dict[str, Any]) -> None:
        line = {"method": "sasrec, binary", "epoch": record["epoch"]}
        line |= {"loss": record["loss"], "validation NDCG@10": record["validation"]}
        if record["epoch"] % TEST_EVERY == 0:
            line |= measured(model, split.test.groups, tested)
        seconds = round(time.process_time() - started, 1)
        append_line(LOG, {**line, "processor_seconds": seconds})

    model.set_params(on_epoch=follow)
    model.fit(training, item_ids=data.item_ids, validation=split.validation.groups)


def main() -> None:
    """Run, and write the result file."""
    if "--report" not in sys.argv:
        run(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
    lines = read_lines(LOG, dict)
    popularity = next(line for line in lines if line["method"] == "popularity")
    epochs = [line for line in lines if "epoch" in line]
    known = [line for line in epochs if "hit@10" in line]
    best = max(known, key=lambda line: line["validation NDCG@10"], default=None)
    write_result(
        "sasrec_published",
        {
            "dataset": VIDEO,
            "protocol": "leave_one_out, 100 uniform negatives",
            "printed": SASREC_EXPECTED[VIDEO]["sampled"],
            "parameters": OPTIONS,
            "rows": [popularity, *([best] if best else [])],
            "epochs": epochs,
        },
    )


if __name__ == "__main__":
    main()
