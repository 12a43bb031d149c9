"""The row of a plain fit in the tables of recipes."""

import numpy as np
import pytest

from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks.shop import make_shop
from groupnoise.exceptions import ConfigError
from groupnoise.reproduce.files import NO_RECIPE, read_recipe
from groupnoise.reproduce.jobs import make_trial
from groupnoise.reproduce.run import run_method

HEADS = {
    "mil": '[protocol]\nfractions = [0.6, 0.2, 0.2]\ntrials = 1\n[ours]\nencoder = "identity"',
    "pll": '[protocol]\nfractions = [0.6, 0.2, 0.2]\ntrials = 1\n[ours]\nencoder = "linear"',
    "rs": '[protocol]\ntrials = 1\nrefit = true\nfull = true\n[ours]\nselection = "marginal"',
}


def write(tmp_path, setting, more=""):
    path = tmp_path / f"{setting}.toml"
    head = f'setting = "{setting}"\ndatasets = ["any"]\nno_recipe = true\n{HEADS[setting]}\n'
    path.write_text(head + more)
    return path


def data_of(setting):
    if setting == "mil":
        return load_digit_bags(30, size=(3, 5), random_state=0)
    if setting == "pll":
        return load_digit_candidates(part="validation", random_state=0)
    return make_shop(n_users=60, random_state=0)


@pytest.mark.parametrize("setting", ["mil", "pll", "rs"])
def test_a_plain_fit_is_a_row_beside_the_recipe(tmp_path, setting):
    recipe = read_recipe(write(tmp_path, setting))
    assert recipe.row_names == ("ours", NO_RECIPE)
    trial = make_trial(recipe, "any", data_of(setting), 0, quick=True)
    (result,), fitted = run_method(trial, recipe.method(NO_RECIPE, "any", quick=True))
    assert result.method == NO_RECIPE
    assert all(np.isfinite(list(result.metrics.values())))
    assert fitted.decisions_.options
    assert result.curve == [] or not any("validation" in record for record in fitted.history_)


def test_a_plain_fit_takes_no_parameters(tmp_path):
    path = write(tmp_path, "mil", f'[dataset.any.{NO_RECIPE}]\nencoder = "mlp"\n')
    with pytest.raises(ConfigError, match="takes no parameters"):
        read_recipe(path)


def test_a_plain_fit_of_clicks_reads_histories_up_to_what_is_asked_for(tmp_path):
    shop = make_shop(n_users=20, random_state=0)
    trial = make_trial(read_recipe(write(tmp_path, "rs")), "any", shop, 0)
    before = trial._histories_before(trial.split.test)
    lengths = shop.histories.sizes.copy()
    for user, position in zip(trial.split.test.users, trial.split.test.positions, strict=True):
        lengths[user] = min(lengths[user], position)
    expected = [
        shop.histories.objects[start : start + length].tolist()
        for start, length in zip(shop.histories.offsets[:-1], lengths, strict=True)
        if length
    ]
    assert [
        list(before.objects[a:b])
        for a, b in zip(before.offsets[:-1], before.offsets[1:], strict=True)
    ] == expected
    assert before.n_objects < shop.histories.n_objects


@pytest.mark.parametrize("name", ["mil", "pll", "amazon"])
def test_the_tables_of_the_paper_have_the_row(name):
    from importlib import resources

    path = resources.files("groupnoise.reproduce").joinpath("recipes", f"{name}.toml")
    assert NO_RECIPE in read_recipe(str(path)).row_names
