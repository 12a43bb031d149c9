"""A service that is told to end resets nobody."""

import http.client
import signal
import threading
import time
from urllib.parse import urlsplit

import pytest

from serving_support import running_service, write_random

N_CLIENTS = 12
BODY = b'{"histories": [[1, 2, 3]]}'
HEADERS = {"Content-Type": "application/json"}


class Client(threading.Thread):
    """Asks as fast as it is answered, until nobody listens any more."""

    def __init__(self, address, keeps_connection):
        super().__init__()
        self._target = urlsplit(address)
        self._keeps_connection = keeps_connection
        self.n_answered = 0
        self.is_ended = False
        self.lost = None

    def run(self):
        connection = None
        while not self.is_ended:
            if connection is None:
                connection = http.client.HTTPConnection(
                    self._target.hostname, self._target.port, timeout=20
                )
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    return
            try:
                connection.request("POST", "/v1/recall", BODY, HEADERS)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, answer.status
            except Exception as error:
                self.lost = repr(error)
                return
            self.n_answered += 1
            if connection.sock is None or not self._keeps_connection:
                connection.close()
                connection = None


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
