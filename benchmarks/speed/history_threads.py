"""An epoch over long histories: by torch alone and with compiled loops, on one thread and two.

    python benchmarks/speed/history_threads.py --data DIRECTORY

The deep member of a plain fit learns from some users of MovieLens-1M, if DIRECTORY has it, or of a
log of Zipf's law: on one thread, on two that share every operation, and on two that take half of
the sequences each, which is what `fit` does; by torch alone, and with the loops that numba
compiles. All in turns, in one run; threads that wait sleep. `bound` is what the matrix products of
the encoder, of the contexts and of the scores alone would take on one thread, at the speed of one
large product. With `--epoch` one epoch over all users follows, as `fit` trains it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result
from epochs import FILE, movielens, zipf_log

from groupnoise import Groups
from groupnoise.clicks.evidence import steps as evidence_steps, training as evidence_training
from groupnoise.clicks.evidence.model import EvidenceModel
from groupnoise.clicks.evidence.options import DEEP, ENCODER_SIZES
from groupnoise.clicks.evidence.recurrence_training import RecurrentEncoder
from groupnoise.clicks.evidence.steps import EvidencePlan
from groupnoise.core.arrays import torch_generator
from groupnoise.core.device import keeping_freed_memory

DIM, LENGTH, BATCH, NEGATIVES = 128, 200, 1024, 512
WAYS = {
    "one thread, torch": (1, 1, False),
    "one thread, compiled loops": (1, 1, True),
    "within operations, torch": (2, 1, False),
    "halves of a batch, torch": (2, 4, False),
    "halves of a batch, compiled loops": (2, 4, True),
}
"""Threads of torch, the most parts of a batch, and whether loops are compiled."""
TAKEN = "halves of a batch, compiled loops"


def product_speed() -> float:
    """Return multiplications and additions a second of a large product on one thread."""
    torch.set_num_threads(1)
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    times = []
    for _ in range(10):
        started = time.process_time()
        torch.mm(left, right)
        times.append(time.process_time() - started)
    return 2 * 1024**3 / min(times)


def trained(model: EvidenceModel, users: Groups, way: str) -> tuple[float, float]:
    """Return the seconds of an epoch by the clock and of the processors."""
    n_threads, evidence_training.MAX_PARTS, has_loops = WAYS[way]
    evidence_steps.MIN_READS = 0 if has_loops else 1 << 62
    torch.set_num_threads(n_threads)
    plan = EvidencePlan(
        max_epochs=1,
        batch_size=BATCH,
        n_negatives=NEGATIVES,
        learning_rate=5e-3,
        weight_decay=0.3,
    )
    clock, worked = time.perf_counter(), time.process_time()
    evidence_training.train_evidence(model, users, plan, np.random.default_rng(0))
    return time.perf_counter() - clock, time.process_time() - worked


def main() -> None:
    """Time all ways in turns and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="Holds the .txt.gz file.")
    parser.add_argument("--users", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epoch", action="store_true", help="One epoch over all users too.")
    arguments = parser.parse_args()
    found = (arguments.data / FILE).is_file()
    log = movielens(arguments.data / FILE) if found else zipf_log()
    n_items = int(log.objects.max()) + 1
    generator = np.random.default_rng(0)
    users = log.subset(np.sort(generator.permutation(len(log))[: arguments.users]))
    n_targets = int(users.n_objects - len(users))
    draws = torch_generator(generator)
    encoder = RecurrentEncoder(DIM, *ENCODER_SIZES[DEEP], LENGTH, generator=draws)
    vectors = generator.normal(scale=0.05, size=(n_items, DIM)).astype(np.float32)
    bias = np.zeros(n_items, dtype=np.float32)
    model = EvidenceModel(vectors, bias, history_length=LENGTH, shared=True, encoder=encoder)
    scored: list[int] = []
    candidates_of = evidence_steps._sample_candidates

    def counted(targets: Any, *rest: Any) -> Any:
        drawn = candidates_of(targets, *rest)
        scored.append(len(targets) * (n_items if drawn is None else len(drawn[0])))
        return drawn

    times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with keeping_freed_memory():
        trained(model, users, TAKEN)  # compiles
        for _ in range(arguments.rounds):
            for way in WAYS:
                times[way].append(trained(model, users, way))
        evidence_steps._sample_candidates = counted
        trained(model, users, TAKEN)
        evidence_steps._sample_candidates = candidates_of
        whole = trained(model, log, TAKEN) if arguments.epoch else None
    per_million = 1e6 / n_targets
    rows: list[dict[str, Any]] = [
        {
            "way": way,
            "seconds": round(per_million * float(np.median([each[0] for each in spent])), 1),
            "processor_seconds": round(
                per_million * float(np.median([each[1] for each in spent])), 1
            ),
        }
        for way, spent in times.items()
    ]
    if whole is not None:
        rows.append(
            {
                "way": f"one epoch over {int(log.n_objects - len(log))} targets, {TAKEN}",
                "seconds": round(whole[0], 1),
                "processor_seconds": round(whole[1], 1),
            }
        )
    weights = sum(each.numel() for each in encoder.parameters())
    n_scored = sum(scored) / n_targets
    bound = 6e6 * (weights + DIM * (n_scored + LENGTH)) / product_speed()
    payload = {
        "config": {
            "log": FILE if found else "zipf",
            "targets": n_targets,
            "batch": BATCH,
            "scores of a target": round(n_scored),
        },
        "seed": 0,
        "seconds_are": "per million targets, medians; of one epoch, what it took",
        "rows": rows,
        "bound": round(bound, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    print(rows, payload["bound"], payload["config"])
    print(write_result("history_threads", payload))


if __name__ == "__main__":
    main()
