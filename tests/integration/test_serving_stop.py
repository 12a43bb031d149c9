"""A service that is told to end resets nobody."""

import signal
import time

import pytest

from serving_support import Client, running_service, write_random

N_CLIENTS = 12


@pytest.mark.parametrize("keeps_connection", [True, False])
def test_a_stop_under_load_resets_no_request(tmp_path, keeps_connection):
    artifact = write_random(tmp_path / "a", 3_000)
    for _ in range(2):
        with running_service(tmp_path, artifact) as service:
            clients = [Client(service.address, keeps_connection) for _ in range(N_CLIENTS)]
            for client in clients:
                client.start()
            while sum(client.n_answered for client in clients) < 200:
                assert all(client.is_alive() for client in clients)
                time.sleep(0.01)
            service.process.send_signal(signal.SIGTERM)
            for client in clients:
                client.join(timeout=30)
                client.is_ended = True
            assert [client.lost for client in clients if client.lost] == []
            assert service.process.wait(timeout=20) in (0, -signal.SIGTERM)
