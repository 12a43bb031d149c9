"""A file that does not fit a model is refused by what the model learned."""

from journeys.own_files import FILES, write_csv

TICKETS = [
    ("my card was charged twice", "billing"),
    ("the card payment failed again", "billing"),
    ("cannot login with my password", "account"),
    ("please reset the password again", "account"),
] * 6


def test_each_model_names_what_a_file_of_another_setting_lacks(command, tmp_path):
    bags, _ = FILES["mil", "csv"](tmp_path)
    write_csv(tmp_path / "tickets.csv", ("message", "candidates"), TICKETS)
    quick = ("-q", "-p", "max_epochs=1")
    command("fit", bags.name, "--setting", "mil", "-o", "of_bags", *quick)
    command("fit", "tickets.csv", "--setting", "pll", "-o", "of_tickets", *quick)

    said = command("evaluate", "of_bags", "tickets.csv", code=2).err
    assert "of_bags is of bags and learned the group 'bag'; tickets.csv has no column" in said
    assert "'message', 'candidates'" in said
    said = command("predict", "of_tickets", bags.name, "-o", "out.csv", code=2).err
    assert "bags.csv lacks the column that the model learned from: 'message' (text)." in said
    said = command("evaluate", "nowhere", bags.name, code=2).err
    assert "there is no folder nowhere; give the folder that" in said


def test_one_bag_is_spoken_of_as_one(command, tmp_path):
    rows = [("b", "cat;dog", 0.1, 0.2), ("b", "cat;dog", 0.3, 0.4)]
    write_csv(tmp_path / "one.csv", ("bag", "label", "f0", "f1"), rows)
    said = command("audit", "one.csv", "--setting", "mil", code=2).err
    assert "5 folds are too many for 1 bag; ask for fewer with n_folds (--folds)" in said
    said = command("fit", "one.csv", "--setting", "mil", "-o", "model")
    assert "1 bag is too few" in " ".join((said.out + said.err).split())
