"""Training from memory-mapped groups that are larger than the memory allowed."""

import sys

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.clicks import write_windows
from training_processes import PROCESSES, fit_bags_within, fit_windows_within

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA leaves mapped files out on Linux alone"
)
MEGABYTE = 1 << 20


def in_a_process(target, *arguments):
    process = PROCESSES.Process(target=target, args=arguments)
    process.start()
    process.join(timeout=120)
    assert process.exitcode == 0


@pytest.fixture(scope="module")
def bag_file(tmp_path_factory):
    """Bags of 20 rows, the first of which tells the label, 64 features wide: 600 MB."""
    path = tmp_path_factory.mktemp("bags") / "features.npy"
    n_blocks, block = 60, 40_960
    rows = np.random.default_rng(0).normal(size=(block, 64)).astype(np.float32)
    label = np.arange(block // 20) % 4
    rows[::20] += 8 * np.eye(4, 64, dtype=np.float32)[label]
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (n_blocks * block, 64))
    for first in range(0, len(mapped), block):
        mapped[first : first + block] = rows
    del mapped
    yield path
    path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("mapped", [True, False])
def test_bags_larger_than_the_memory_allowed_are_trained_on_from_disk(bag_file, tmp_path, mapped):
    limit, outcome = 560 * MEGABYTE, tmp_path / "outcome.txt"
    assert bag_file.stat().st_size > limit
    in_a_process(fit_bags_within, limit, bag_file, 20, outcome, mapped)
    said = outcome.read_text()
    if mapped:
        assert float(said.removeprefix("accuracy ")) > 0.9
    else:
        assert said == "out of memory"


@pytest.fixture(scope="module")
def window_folder(tmp_path_factory):
    """Two million windows of five clicks: 64 MB of objects, offsets and targets."""
    folder = tmp_path_factory.mktemp("clicks") / "windows"
    generator = np.random.default_rng(0)
    topic = np.repeat(generator.integers(100, size=20_000), 105)
    clicks = (topic * 10 + generator.integers(10, size=len(topic))).astype(np.int32)
    write_windows(folder, Groups(clicks, np.arange(0, len(clicks) + 1, 105)), size=5, min_size=5)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("shuffle_pool", [100_000, None])
def test_windows_are_trained_on_with_less_memory_than_they_take(
    window_folder, tmp_path, shuffle_pool
):
    outcome = tmp_path / "outcome.txt"
    in_a_process(fit_windows_within, 16 * MEGABYTE, window_folder, outcome, shuffle_pool)
    said = outcome.read_text()
    if shuffle_pool is not None:
        assert float(said.removeprefix("loss ")) < np.log(33)
    else:  # an order of all windows at once does not fit
        assert said == "out of memory"
