"""Which connections count as stalled, and when they are closed."""

from types import SimpleNamespace

from groupnoise.serving.http._stalled import StalledConnections


class Connection:
    """What the sweep looks at: a request that may be running, and a transport to close."""

    def __init__(self, cycle=None):
        self.cycle = cycle
        self.is_closed = False
        self.transport = SimpleNamespace(close=self.close)

    def close(self):
        self.is_closed = True


def test_a_connection_without_a_request_is_closed_after_the_limit():
    connection, sweep = Connection(), StalledConnections(2.0)
    assert sweep.close_stalled([connection], 10.0) == 0
    assert sweep.close_stalled([connection], 12.0) == 0
    assert sweep.close_stalled([connection], 12.1) == 1
    assert connection.is_closed


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
