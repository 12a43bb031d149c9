"""Peak memory and speed of trainings on bags larger than memory, beside the same in memory.

A data folder of bags in half precision is written to a temporary place. Trainings run in processes
of their own, so that their peak memory is their own: a plain fit on all bags, which decides on a
sample; one member and the training loop on all bags from disk; and the last two on as many bags as
fit in memory, once from disk and once from memory, for the speed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _processes import PEAK_MB, run_python
from _record import write_result

from groupnoise.io.folders.data_folder import new_data_folder, write_manifest
from groupnoise.io.tables.array_files import ArrayWriter, write_array

SIZES: dict[str, dict[str, Any]] = {
    "small": {
        "n_bags": 120,
        "max_size": 3_000,
        "width": 128,
        "n_in_memory": 60,
        "budget": "15s",
    },
    "large": {
        "n_bags": 1_000,
        "max_size": 20_000,
        "width": 512,
        "n_in_memory": 100,
        "budget": "2m",
    },
}
"""Of the small one everything is below 100 MB; of the large one features take 10 GB."""
MIN_SIZE = 50
WITNESSES = 0.02
"""Share of the instances of a positive bag that are positive."""
MEASURED_RUN = """
import json, sys, time
import numpy as np
from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.bags.search.members import MemberSettings
from groupnoise.bags.search.full_training import train_on_all
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.io import open_groups

folder, task, place, n_bags = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
data = open_groups(folder)
labels = data.labels[:n_bags]
bags = StreamedGroups(data.bags.objects, data.bags.offsets).subset(slice(0, n_bags))
if place == "memory":
    bags = Groups(np.array(bags.objects, dtype=np.float32), bags.offsets)
loaded, started, worked = peak_mb(), time.perf_counter(), time.process_time()
y = labels[:, 1].astype(int)
if task == "member":
    settings = MemberSettings(max_epochs=60)
    model = train_on_all([settings], bags, labels[:, 1:], True, 0).members
elif task == "loop":
    model = MaxMatchingMILClassifier.fixed(
        max_epochs=2, weighting_strength=0.0, random_state=0
    ).fit(bags, y)
else:
    model = MaxMatchingMILClassifier(random_state=0, budget=sys.argv[5]).fit(bags, y)
seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
peak = peak_mb()
found = {"bags": n_bags, "objects": int(bags.n_objects), "seconds": round(seconds, 2),
         "cpu_seconds": round(cpu_seconds, 2),
         "memory_before_mb": loaded, "peak_memory_mb": peak}
if task == "plain":
    found["decided"] = model.decisions_.reasons[0]
    found["bag_accuracy_on_training_bags"] = float((model.predict_bags(bags) == y).mean())
print(json.dumps(found))
"""


def write_bags(folder: Path, n_bags: int, max_size: int, width: int) -> int:
    """Write bags of normal features bag by bag, and return the bytes of their features."""
    generator = np.random.default_rng(0)
    labels = np.arange(n_bags) % 2
    direction = generator.normal(size=width)
    direction *= 8.0 / np.linalg.norm(direction)
    sizes = generator.integers(MIN_SIZE, max_size + 1, size=n_bags)
    with new_data_folder(folder) as building:
        with ArrayWriter(building / "features.npy", np.float16, (width,)) as writer:
            for size, label in zip(sizes, labels, strict=True):
                bag = generator.standard_normal((size, width), dtype=np.float32)
                if label:
                    n_positive = max(1, int(WITNESSES * size))
                    bag[generator.choice(size, n_positive, replace=False)] += direction
                writer.append(bag.astype(np.float16))
            features = writer.finish()
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        entries = {
            "features": features,
            "offsets": write_array(building / "offsets.npy", offsets),
            "labels": write_array(building / "labels.npy", np.eye(2, dtype=bool)[labels]),
        }
        details = {"name": "large bags", "class_names": ["negative", "positive"]}
        write_manifest(building, "bags", entries, details)
    return int(offsets[-1]) * width * 2


def run(folder: Path, task: str, place: str, n_bags: int, budget: str) -> dict[str, Any]:
    """Return the time and memory of a training in a process of its own."""
    output = run_python(PEAK_MB + MEASURED_RUN, folder, task, place, n_bags, budget)
    found: dict[str, Any] = json.loads(output)
    print(f"{task:6} from {place:6} {found}", flush=True)
    return found


def main() -> None:
    """Write the bags, train, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="less than 100 MB, for a quick look")
    parser.add_argument("--place", help="folder for the temporary data; needs 11 GB for all of it")
    options = parser.parse_args()
    size = "small" if options.small else "large"
    chosen = dict(SIZES[size])
    n_in_memory, budget = chosen.pop("n_in_memory"), chosen.pop("budget")
    with tempfile.TemporaryDirectory(prefix="large-bags-", dir=options.place) as place:
        folder = Path(place) / "bags"
        n_bytes = write_bags(folder, **chosen)
        print(f"{chosen['n_bags']} bags, {n_bytes / 1e9:.2f} GB", flush=True)
        tasks = ("plain", "member", "loop")
        everything = {task: run(folder, task, "disk", chosen["n_bags"], budget) for task in tasks}
        compared = {}
        for task in ("member", "loop"):
            both = {
                place: run(folder, task, place, n_in_memory, budget) for place in ("disk", "memory")
            }
            speed, by_cpu = (
                round(both["memory"][clock] / both["disk"][clock], 3)
                for clock in ("seconds", "cpu_seconds")
            )
            compared[task] = {**both, "speed": speed, "speed_by_cpu_time": by_cpu}
            print(f"{task}: {speed:.0%} of the speed in memory ({by_cpu:.0%} by CPU time)")
    write_result(
        f"large_bags_{size}",
        {
            "configuration": {**SIZES[size], "min_size": MIN_SIZE, "witnesses": WITNESSES},
            "gigabytes_on_disk": round(n_bytes / 1e9, 2),
            "all_bags_from_disk": everything,
            "bags_that_fit": compared,
        },
    )


if __name__ == "__main__":
    main()
