"""torchrun across two network namespaces: two machines as far as the network can tell."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from groupnoise import MaxMatchingRecommender
from groupnoise.cli import main
from worker_processes import ABORT_AT_EXIT

TIMEOUT_SECONDS = 120
PORT = 29400
FIT = ["-m", "groupnoise", "fit", "shop", "-q", "--validation", "0"]
SMALL = ["-p", "dim=8", "-p", "max_epochs=3", "-p", "init=random", "-p", "batch_size=1000"]
SMALL += ["-p", "normalization=click"]


def command(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)


class Machine:
    """A namespace of its own, with one end of a cable."""

    def __init__(self, name, cable, address):
        self.name, self.cable, self.address = name, cable, address

    def start(self, meeting, *words, max_restarts=0):
        """Start torchrun's agent here; it ends with everything it started when it is killed."""
        agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
        agent += ["--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}:{PORT}", "--rdzv-id=night"]
        # In a namespace nobody can look up whose address the meeting point is.
        is_host = str(meeting == self.address).lower()
        agent += [f"--rdzv-conf=is_host={is_host},keep_alive_interval=1"]
        agent += [f"--local-addr={self.address}", f"--max-restarts={max_restarts}"]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *agent, *FIT, *map(str, words)],
            env={
                **os.environ,
                "GLOO_SOCKET_IFNAME": self.cable,
                "OMP_NUM_THREADS": "1",
                # An agent that shares its store says where it is in the first round alone, and a
                # machine that comes back would wait for it in vain.
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def machines():
    """Two namespaces joined by a cable, gone after the test."""
    if shutil.which("ip") is None:
        pytest.skip("ip of iproute2 is not installed")
    mark = os.urandom(2).hex()
    names = [f"groupnoise-{mark}-{number}" for number in range(2)]
    cables = [f"gn{mark}{number}" for number in range(2)]
    made = [Machine(names[end], cables[end], f"10.211.7.{end + 1}") for end in range(2)]
    with contextlib.ExitStack() as undo:
        try:
            for machine in made:
                command("ip", "netns", "add", machine.name)
                undo.callback(command, "ip", "netns", "del", machine.name)
            command("ip", "link", "add", cables[0], "type", "veth", "peer", "name", cables[1])
            for machine in made:
                command("ip", "link", "set", machine.cable, "netns", machine.name)
                inside = ["ip", "-n", machine.name]
                command(*inside, "addr", "add", f"{machine.address}/24", "dev", machine.cable)
                command(*inside, "link", "set", machine.cable, "up")
                command(*inside, "link", "set", "lo", "up")
                command("ip", "netns", "exec", machine.name, "true")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
        yield made


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The model of one process with the same global batch: this one, whose libraries are loaded."""
    folder = tmp_path_factory.mktemp("alone") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["groupnoise", *FIT[2:], *SMALL, "-o", str(folder)])
        with pytest.raises(SystemExit) as left:
            main()
    assert not left.value.code
    return MaxMatchingRecommender.load(folder)


def finish(agents):
    """Wait for both; return what they said, and whether torch itself failed at exit."""
    said = []
    for agent in agents:
        try:
            said.append(agent.communicate(timeout=TIMEOUT_SECONDS)[0])
        except subprocess.TimeoutExpired:
            os.killpg(agent.pid, signal.SIGKILL)
            said.append(f"it waited in vain: {agent.communicate()[0]}")
    return said, any(ABORT_AT_EXIT in text for text in said)


def assert_same_training(folder, alone):
    together = MaxMatchingRecommender.load(folder)
    losses = together.history_.column("loss")
    assert_allclose(losses, alone.history_.column("loss"), rtol=0, atol=1e-5)
    for ours, expected in zip(together.item_vectors(), alone.item_vectors(), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_two_machines_give_the_loss_curve_of_one(machines, alone, tmp_path):
    for attempt in range(2):
        folder = tmp_path / f"model{attempt}"
        meeting = machines[0].address
        agents = [machine.start(meeting, *SMALL, "-o", folder) for machine in machines]
        said, is_aborted = finish(agents)
        if not is_aborted:
            break
    assert [agent.returncode for agent in agents] == [0, 0], "\n".join(said)
    assert_same_training(folder, alone)


@pytest.mark.slow
def test_a_machine_that_is_lost_and_comes_back_changes_nothing(machines, alone, tmp_path):
    saves, folder = tmp_path / "saves", tmp_path / "model"
    words = [*SMALL, "-o", folder, "--checkpoint", saves, "--checkpoint-every", "3steps"]
    words += ["--resume"]
    first, second = machines
    stays = first.start(first.address, *words, max_restarts=3)
    lost = second.start(first.address, *words, max_restarts=3)
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not list(saves.glob("checkpoint-*")):
            assert time.monotonic() < deadline, "nothing was saved"
            assert stays.poll() is None, stays.communicate()[0]
            time.sleep(0.02)
        os.killpg(lost.pid, signal.SIGKILL)  # power cut: the agent and its worker at once
        for child in subprocess.run(
            ["ip", "netns", "pids", second.name], capture_output=True, text=True
        ).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        lost.communicate()
        back = second.start(first.address, *words, max_restarts=3)
        said, _ = finish([stays, back])
    finally:
        for agent in (stays, lost):
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
                agent.communicate()
    assert stays.returncode == 0, "\n".join(said)
    assert_same_training(folder, alone)
