"""The portfolio of a plain fit on bags, and the facts of the data that choose it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.search.forests_and_kernels import RIDGES, WIDTHS
from groupnoise.bags.search.members import FORESTS, STATISTICS, BagProblem, MemberSettings
from groupnoise.core.arrays import BoolArray
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import LANDMARKS, PIECES, PiecewiseTransform
from groupnoise.decisions.portfolio import Option

FEW_BAGS = 40
"""Fewer bags than this cannot tell many settings apart, so that fewer are tried."""
SPARSE = 0.5
MIN_EVEN = 2.0
"""Features that must make up the mean square of all for one size to fit them."""
MAX_PIECED, MAX_PIECES = 40, 400
"""Features that are cut to pieces, and columns that may come of it."""
MAX_FOREST_FEATURES = 300
"""Features up to which forests are tried: each tree of more sees next to none of them."""
LINEAR_DECAYS = (0.1, 0.01, 1.0)
"""Of linear members of one positive class; the strongest is for few bags that tell little."""
INHERITED_DECAY_FACTOR = 0.1
"""Times these decays for "inherited", to which every instance of a bag tells a label."""
DECAYS = {"identity": (0.1,), "mlp": (0.01,)}
CLASS_DECAYS = {"identity": (0.01, 0.1, 0.001), "mlp": (0.01, 0.001)}
"""Weight decays, the first one tried first: of one positive class, and of several classes."""
RATES = {"identity": 0.1, "mlp": 0.02}
EPOCHS = {"identity": 120, "mlp": 100}
DROPOUTS = {"identity": 0.0, "mlp": 0.5}
CLASS_DROPOUT = 0.2
HIDDEN_PER_CLASS = 6
MIN_HIDDEN, MAX_HIDDEN = 64, 128
"""Hidden units of several classes: as many per class as tell it from others, within bounds."""


def facts_of_bags(bags: Groups, labels: BoolArray, negative: Any) -> dict[str, Any]:
    """Return what is known of bags before any training.

    Name to number or text. `labels`: of shape (n_bags, n_classes). `negative`: the negative label,
    or None.
    """
    counts = labels.sum(axis=1)
    some = bags.objects[:: max(1, len(bags.objects) // 5_000)]
    facts: dict[str, Any] = {
        "bags": len(bags),
        "instances": bags.n_objects,
        "features": int(bags.objects.shape[1]),
        "classes": int(labels.shape[1]),
        "instances per bag": round(float(np.mean(bags.sizes)), 2),
        "labels per bag": round(float(counts.mean()), 2),
        "fraction of zeros": round(float((some == 0).mean()), 3),
        "columns of binned features": _n_pieces(some),
    }
    if facts["fraction of zeros"] > SPARSE and n_effective_features(some) < MIN_EVEN:
        facts["feature scales"] = "uneven"
    if negative is not None:
        facts["negative label"] = str(negative)
    if not counts.all():
        facts["bags without a label"] = int((counts == 0).sum())
    return facts


def n_effective_features(rows: NDArray[Any]) -> float:
    """Return the effective number of features: the participation ratio of their mean squares."""
    largest = max(float(np.abs(rows).max(initial=0.0)), 1e-300)
    mean = np.square(rows / largest, dtype=np.float64).mean(axis=0)
    return float(mean.sum() ** 2 / max(float((mean**2).sum()), 1e-300))


def _n_pieces(rows: NDArray[Any]) -> int:
    """Return the columns that features have when cut to pieces, 0 where they are too many."""
    if rows.shape[1] > MAX_PIECED:
        return 0
    n_columns = PiecewiseTransform.fit(rows).table.shape[1]
    return n_columns if n_columns <= MAX_PIECES else 0


def bag_options(
    problem: BagProblem, facts: Mapping[str, Any], *, encoder: Any = None
) -> list[Option]:
    """Return the settings to try, at their first weight decay, the safest first.

    `encoder`: the explicit encoder, which is tried whatever the numbers of bags and features.
    """
    # Categories beside prices are no words: one size for all would leave nothing of them.
    is_even = "feature scales" not in facts
    sparse = facts["fraction of zeros"] > SPARSE and is_even
    scalings = ("rms", "standard", "power") if sparse else ("standard", "power", "rms")
    of_networks = scalings[:2]
    if facts.get("columns of binned features"):
        # Tables of few features bend rather than keep their zeros.
        scalings, of_networks = ("standard", "power", PIECES), ("power", PIECES)
    # A tree asks for a few words of a hundred, of which a text has few or none.
    is_forked = facts.get("features", np.inf) <= MAX_FOREST_FEATURES and scalings[0] != "rms"
    few = facts["bags"] < FEW_BAGS
    found = []
    if problem.has_negative and problem.n_named == 1:
        regions = (LANDMARKS,) if facts.get("columns of binned features") and not few else ()
        linear = [
            _settings(problem, likelihood, each)
            for each in (*scalings, *regions)
            for likelihood in ("noisy_or", "soft_max", "inherited")
        ]
        found = [_with_decay(each, decay) for decay in LINEAR_DECAYS for each in linear]
        for scaling in of_networks:
            for likelihood in ("noisy_or", "max", "mixture", "soft_max"):
                found.append(_settings(problem, likelihood, scaling, "mlp"))
        if encoder in FORESTS or is_forked:
            found += [
                MemberSettings("inherited", "standard", each, weight_decay=0.0) for each in FORESTS
            ]
    else:
        grounds = (False,) if problem.has_negative else (True, False)
        for background in grounds:
            rules = ("noisy_or", "label_set", "matching", "soft_max", "max")
            for likelihood in rules[: 3 if few else None]:
                for scaling in scalings[: 1 if few else 2]:
                    found.append(_settings(problem, likelihood, scaling, background=background))
            for likelihood in (
                () if few and encoder != "mlp" else ("matching", "noisy_or", "label_set")
            ):
                for scaling in scalings[:2]:
                    found.append(
                        _settings(problem, likelihood, scaling, "mlp", background=background)
                    )
        found += [_settings(problem, "inherited", each) for each in scalings[:2]]
    return [as_option(each) for each in found]


def statistics_options(explicit: Mapping[str, Any]) -> list[Option]:
    """Return whole-bag members; none if parameters of instances are explicit.

    One per scaling, width of the kernel and ridge. `explicit`: parameters the user gave.
    """
    if set(explicit) - {"scaling"}:
        return []
    scalings = (explicit["scaling"],) if "scaling" in explicit else ("standard", "power")
    found = []
    for scaling in scalings:
        for width in WIDTHS:
            for ridge in RIDGES:
                settings = MemberSettings(STATISTICS, scaling, weight_decay=ridge, width=width)
                found.append(as_option(settings))
    return found


def _settings(
    problem: BagProblem,
    likelihood: str,
    scaling: str,
    encoder: str = "identity",
    *,
    background: bool = False,
) -> MemberSettings:
    one = problem.n_named == 1
    decays = (DECAYS if one else CLASS_DECAYS)[encoder]
    dropout = DROPOUTS[encoder]
    hidden = min(MAX_HIDDEN, max(MIN_HIDDEN, HIDDEN_PER_CLASS * problem.n_named))
    return MemberSettings(
        likelihood=likelihood,
        scaling=scaling,
        encoder=encoder,
        hidden=MemberSettings.hidden if one or encoder != "mlp" else hidden,
        background=background,
        weight_decay=decays[0],
        learning_rate=RATES[encoder],
        max_epochs=EPOCHS[encoder],
        dropout=dropout if one or not dropout else CLASS_DROPOUT,
    )


def _with_decay(settings: MemberSettings, decay: float) -> MemberSettings:
    weaker = INHERITED_DECAY_FACTOR if settings.likelihood == "inherited" else 1.0
    return replace(settings, weight_decay=decay * weaker)


def as_option(settings: MemberSettings) -> Option:
    """Return settings under a name; strong decay and no hidden layer count as simple."""
    name = f"{settings.likelihood}, {settings.encoder}, {settings.scaling}"
    if settings.likelihood == STATISTICS:
        name = f"{STATISTICS}, {settings.scaling}, width {settings.width:g}"
    if settings.background:
        name += ", background"
    if settings.encoder not in FORESTS:
        name += f", decay {settings.weight_decay:g}"
    return Option(
        name,
        vars(settings),
        complexity=float(settings.encoder != "identity") - min(settings.weight_decay, 1.0),
        # Those that see bags as a whole tell nothing of instances.
        measure="labels of bags alone" if settings.likelihood == STATISTICS else "",
    )


def family(parameters: Mapping[str, Any], varied: str = "weight_decay") -> tuple[Any, ...]:
    """Return what members share that differ in one parameter alone."""
    return tuple(sorted((k, v) for k, v in parameters.items() if k != varied))


def decay_variants(
    option: Option, problem: BagProblem, explicit: Mapping[str, Any]
) -> list[Option]:
    """Return an option with each weight decay of its kind, or alone where the decay was given."""
    if "weight_decay" in explicit:
        return [option]
    settings = MemberSettings(**option.parameters)
    decays = (DECAYS if problem.n_named == 1 else CLASS_DECAYS)[settings.encoder]
    return [as_option(replace(settings, weight_decay=decay)) for decay in decays]
