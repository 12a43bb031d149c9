"""History as a table."""

from groupnoise.training.parameters import History


def test_history_reads_by_rows_and_by_columns():
    history = History([{"epoch": 1, "loss": 0.7}])
    history.append({"epoch": 2, "loss": 0.5, "validation": 0.9})
    assert len(history) == 2
    assert [record["epoch"] for record in history] == [1, 2]
    assert history.as_columns() == {
        "epoch": [1, 2],
        "loss": [0.7, 0.5],
        "validation": [None, 0.9],
    }


def test_an_empty_history_is_an_empty_table():
    assert History().as_columns() == {}
    assert repr(History()) == "History(0 epochs, last {})"


def test_history_does_not_share_the_list_it_was_given():
    records = [{"epoch": 1}]
    History(records).append({"epoch": 2})
    assert len(records) == 1
