"""Where the time of a training step goes: reading, matching, weighing, backward pass, update.

Processor time of one thread, medians over steps, on the batches of `step_time.py` under `max` with
100 negatives. `before` names a folder with the package as it was, to profile it beside today's.

Run: python benchmarks/speed/profile_step.py [before/src]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

WARM_UP, STEPS = 20, 100


def profile() -> dict[str, float]:
    """Return milliseconds by part of a step, with the package this process imports."""
    import numpy as np
    import step_time as setting
    import torch

    torch.set_num_threads(1)
    groups = setting.batches()
    generator = torch.Generator().manual_seed(0)
    table = setting.EmbeddingEncoder(setting.N_ITEMS, setting.DIM, sparse=True, generator=generator)
    model = setting.MatchingModel(table, table, n_targets=setting.N_ITEMS)
    pair = setting.PairMatching(setting.SampledCandidates(setting.N_ITEMS, setting.N_NEGATIVES))
    objective = setting.GroupObjective(
        setting.make_selection("max"), setting.make_weighting("sigmoid")
    )
    (optimizer,) = setting.make_optimizers(model, learning_rate=1e-3, weight_decay=1e-5)
    parts: dict[str, list[float]] = {}
    for number in range(WARM_UP + STEPS):
        rows = np.arange(number % 10 * setting.BATCH, (number % 10 + 1) * setting.BATCH)
        clock = [time.process_time()]
        batch = setting.collate(groups, rows)
        clock.append(time.process_time())
        matching = pair(model, batch, generator)
        clock.append(time.process_time())
        loss = objective(matching).per_group.mean()
        clock.append(time.process_time())
        optimizer.zero_grad()
        loss.backward()
        clock.append(time.process_time())
        optimizer.step()
        clock.append(time.process_time())
        if number >= WARM_UP:
            names = ("batch", "pair matching", "weighting and selection", "backward", "update")
            for name, start, end in zip(names, clock, clock[1:], strict=False):
                parts.setdefault(name, []).append(1000 * (end - start))
    return {name: round(statistics.median(values), 3) for name, values in parts.items()}


def profile_of(source: str) -> dict[str, float]:
    """Profile the package found in a folder, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(
        [sys.executable, __file__, "--inside"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def main() -> None:
    if sys.argv[1:] == ["--inside"]:
        print(json.dumps(profile()))
        return
    root = Path(__file__).parents[2]
    milliseconds = {"after": profile_of(str(root / "src"))}
    if len(sys.argv) > 1:
        milliseconds["before"] = profile_of(sys.argv[1])
        sys.argv[1] = "before/src"  # the result file names no folder of this machine
    sys.path.insert(0, str(root / "benchmarks"))
    from _record import write_result

    print(milliseconds)
    write_result("profile_step", {"threads": 1, "seed": 0, "milliseconds": milliseconds})


if __name__ == "__main__":
    main()
