"""Which connections count as stalled, and when they are closed."""

from types import SimpleNamespace

from groupnoise.recall.http.server import StalledConnections


class Connection:
    """What the sweep looks at: a request that may be running, and a transport to close."""

    def __init__(self, cycle=None):
        self.cycle = cycle
        self.n_unsent = 0
        self.is_closed = False
        self.options = []
        own = SimpleNamespace(setsockopt=lambda *option: self.options.append(option))
        self.transport = SimpleNamespace(
            abort=self.abort,
            get_write_buffer_size=lambda: self.n_unsent,
            get_extra_info={"socket": own}.get,
        )

    def abort(self):
        self.is_closed = True


def test_a_connection_without_a_request_is_closed_after_the_limit():
    connection, sweep = Connection(), StalledConnections(2.0)
    assert sweep.close_stalled([connection], 10.0) == 0
    assert sweep.close_stalled([connection], 12.0) == 0
    assert sweep.close_stalled([connection], 12.1) == 1
    assert connection.is_closed
    assert not connection.options  # what the system still sends may arrive


def test_a_running_request_starts_the_clock_anew():
    running = SimpleNamespace(response_complete=False)
    connection, sweep = Connection(), StalledConnections(2.0)
    sweep.close_stalled([connection], 10.0)
    connection.cycle = running
    assert sweep.close_stalled([connection], 13.0) == 0
    running.response_complete = True
    assert sweep.close_stalled([connection], 14.0) == 0
    assert sweep.close_stalled([connection], 16.5) == 1


def test_connections_that_left_are_forgotten():
    connection, sweep = Connection(), StalledConnections(2.0)
    sweep.close_stalled([connection], 10.0)
    sweep.close_stalled([], 11.0)
    assert sweep.close_stalled([connection], 13.0) == 0


def test_a_client_that_reads_nothing_of_its_answer_is_closed_even_with_a_request_running():
    connection, sweep = Connection(SimpleNamespace(response_complete=False)), StalledConnections(2)
    assert sweep.close_stalled([connection], 10.0) == 0
    connection.n_unsent = 500
    assert sweep.close_stalled([connection], 20.0) == 0
    assert sweep.close_stalled([connection], 22.1) == 1
    assert connection.is_closed


def test_a_client_that_reads_slowly_is_served():
    connection, sweep = Connection(SimpleNamespace(response_complete=True)), StalledConnections(2)
    for step in range(10):
        connection.n_unsent = 500 - step
        assert sweep.close_stalled([connection], 10.0 + 1.5 * step) == 0
