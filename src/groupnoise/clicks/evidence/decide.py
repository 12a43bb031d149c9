"""How a recommender decides, from held-out clicks alone, what evidence to learn and to add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from groupnoise.clicks.evaluation.ranking_slices import clicked_before
from groupnoise.clicks.evidence.averages import averages_to_try, larger_average
from groupnoise.clicks.evidence.linear import (
    Linear,
    about_linear,
    added_evidence,
    choose_linear,
    in_units_of,
    linear_length,
    linear_ranks,
)
from groupnoise.clicks.evidence.model import (
    GAIN_CUT,
    MIN_HELD_OUT,
    Evidence,
    HeldOut,
    about_popularity,
    asking_others,
    evidence_gains,
    gains_by_block,
    hold_out_last,
)
from groupnoise.clicks.evidence.options import (
    EvidenceLearner,
    also_saying,
    click_options,
    member_encoders,
    passes,
    sample_for_trials,
)
from groupnoise.core.arrays import FloatArray, ProgressCallback
from groupnoise.core.groups import Groups
from groupnoise.decisions.halving import explain_not_best, standard_error, successive_halving
from groupnoise.decisions.portfolio import Option, Stopwatch, narrow
from groupnoise.decisions.record import Decisions, Trial
from groupnoise.training.saver import FitSaves
from groupnoise.training.state import Moments

CRITERION = f"NDCG@{GAIN_CUT} of held-out last clicks, ranked in the whole catalogue"
KEPT_OPTIONS = 0.14
"""Share of the options that are trained with all epochs: of seven the best alone, which is then
trained again on all clicks."""
MIN_REPEATED = 0.05
"""Share of held-out clicks on what their user had clicked before that is told of."""
MAX_LAST_TRAINING = 4.0
"""Budgets that the last training may take; beyond, one member is trained alone."""
NEVER_SHORTENED = 1800.0
"""Seconds up to which one member has all its epochs, however small the budget."""


class Decided(NamedTuple):
    """What was learned, and why this.

    `evidence`: learned on all clicks.
    `decisions`: what was tried and taken.
    `records`: one per epoch of the last training.
    `trial`: of the option that was taken, learned without the held-out clicks.
    `held`: these clicks.
    """

    evidence: Evidence
    decisions: Decisions
    records: list[dict[str, Any]]
    trial: Evidence | None = None
    held: HeldOut | None = None


def decide_evidence(
    histories: Groups,
    n_items: int,
    explicit: Mapping[str, Any],
    generator: np.random.Generator,
    *,
    linear: Linear | str | None,
    budget: float | None,
    validate: Any = None,
    on_epoch: ProgressCallback | None = None,
    saves: FitSaves | None = None,
    moments: list[Moments] | None = None,
) -> Decided:
    """Decide on held-out clicks what evidence to learn, and learn it on all clicks.

    `explicit`: parameters that are not to be decided.
    `linear`: linear evidence to add; see :data:`Linear`.
    `budget`: seconds after which no further option is tried.
    `validate`: called with the evidence after each epoch of the last training.
    `on_epoch`: called with a record after each epoch of the last training, and each trial.
    `saves`: where trainings are saved after each epoch, and resumed from.
    `moments`: takes what the optimizer of each member remembers of the last training.
    """
    learner = EvidenceLearner(n_items, int(generator.integers(1 << 31)), saves, moments)
    options = narrow(click_options(histories, n_items), explicit)
    sampled, others = sample_for_trials(histories, generator)
    held = hold_out_last(sampled, generator)
    if held is not None:
        held = asking_others(held, others, n_items, generator)
    length = linear_length(histories)
    found = _Findings(options[0], {} if linear is None or isinstance(linear, str) else linear)
    is_open = len(options) > 1 or linear == "auto"
    if held is None and is_open:
        found.warnings.append(
            f"fewer than {MIN_HELD_OUT} histories can spare a click, too few to try settings on; "
            "the stated defaults were taken."
        )
    elif held is not None and is_open:
        grows = (histories.n_objects - len(histories)) / held.training.n_objects
        found.search(learner, options, held, grows, budget, on_epoch, explicit)
        found.measure(learner, held, length if linear == "auto" else None)
    chosen = found.chosen
    if on_epoch is not None and found.expected is not None:
        begun = {"option": chosen.name, "expected_seconds": found.expected}
        on_epoch({"epoch": 0, "n_epochs": chosen.parameters["max_epochs"], **begun})
    on_all, records = learner.learned(
        histories, chosen.parameters, validate=validate, on_epoch=on_epoch
    )
    if any(record.get("candidate_sets", 1) > 1 for record in records):
        found.reasons.append(
            f"Halves of each batch of {chosen.parameters['batch_size']} targets were normalized "
            "over their own targets and items drawn for them."
        )
    settled = found.linear
    if ranks := linear_ranks(settled):
        regressions = learner.linear(histories, ranks)
        if linear == "auto" and held is not None:
            settled = in_units_of(on_all, regressions, settled, held.asked, length, learner.seed)
        on_all = added_evidence(on_all, regressions, settled, length)
    linear_taken = {name: tuple(values) for name, values in settled.items() if values[0]}
    taken = Option(
        chosen.name,
        {**chosen.parameters, "normalization": "history", "linear": linear_taken or None},
        chosen.why,
    )
    decisions = Decisions(
        facts={
            "histories": len(histories),
            "items": int(n_items),
            "clicks": int(histories.n_objects),
            "clicks in the median history": float(np.median(histories.sizes)),
            "clicks per item": round(float(histories.n_objects) / n_items, 1),
        },
        options=tuple(taken if option.name == taken.name else option for option in options),
        trials=found.trials,
        taken=((taken.name, 1.0),),
        criterion=CRITERION,
        reasons=tuple(found.reasons),
        warnings=tuple(found.warnings),
        baselines=found.baselines,
        held_out=found.reached,
        seconds=found.seconds,
        budget=budget,
    )
    return Decided(on_all, decisions, records, found.trial, held)


@dataclass
class _Findings:
    """What held-out clicks say.

    `chosen`: the option to learn on all clicks.
    `linear`: linear evidence to add, in units of `trial` where it was decided here.
    `trial`: what the chosen option learned without these clicks.
    `reached`: its gain, with linear evidence.
    `expected`: seconds that the last training takes.
    """

    chosen: Option
    linear: Linear
    trial: Evidence | None = None
    reached: float | None = None
    expected: float | None = None
    trials: tuple[Trial, ...] = ()
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    baselines: dict[str, float] = field(default_factory=dict)

    def search(
        self,
        learner: EvidenceLearner,
        options: Sequence[Option],
        held: HeldOut,
        grows: float,
        budget: float | None,
        on_epoch: ProgressCallback | None,
        explicit: Mapping[str, Any],
    ) -> None:
        """Try the options and choose the best that is affordable; `grows`: as there."""
        models: dict[str, Evidence] = {}
        gained: dict[str, FloatArray] = {}

        def evaluate(option: Option, share: Any) -> FloatArray:
            models[option.name] = learner.tried(
                held.training,
                option.parameters,
                float(share),
                also_saying(on_epoch, trial=option.name),
            )
            gained[option.name] = evidence_gains(models[option.name], held.asked)
            return gained[option.name]

        search = successive_halving(
            options,
            evaluate,
            rungs=(1 / 3, 1.0) if len(options) > 1 else (1.0,),
            keep=KEPT_OPTIONS,
            budget=budget,
        )
        ranking, tried = search.ranking, list(search.trials)
        for average in averages_to_try(ranking, tried):
            watch = Stopwatch()
            scores = evaluate(average, 1.0)
            score, error = float(scores.mean()), standard_error(scores)
            tried.append(Trial(average.name, 1, 1.0, score, error, watch.seconds()))
        whole = {trial.option: gained[trial.option] for trial in tried if trial.rung > 0}
        if len(tried) > len(search.trials):
            self.reasons.append(
                f"{ranking[0].name!r} led after a third of its epochs; averages were then tried "
                "with all epochs too."
            )
            reached = {name: float(scores.mean()) for name, scores in whole.items()}
            ranking = sorted(ranking, key=lambda each: -reached.get(each.name, -1.0))
        larger = larger_average(ranking, whole)
        if larger is None:
            self.reasons += explain_not_best(tried, ranking[0].name)
        else:
            self.reasons.append(
                f"{ranking[0].name!r} scored higher ({whole[ranking[0].name].mean():.4f}, against "
                f"{whole[larger.name].mean():.4f} of {larger.name!r}), but not beyond the error of "
                "the comparison: of averages that are level the one of more members is taken."
            )
            ranking = [larger, *(option for option in ranking if option is not larger)]
        self.trials, self.seconds = tuple(tried), search.seconds
        if search.out_of_time:
            self.reasons.append(_skipped(options, search.trials, budget))
        self.chosen, self.expected = affordable(
            ranking, tried, grows, budget, may_shorten="max_epochs" not in explicit
        )
        if self.chosen is not ranking[0]:
            self.reasons.append(_too_long(ranking, self.chosen, tried, grows))
            if self.chosen.name != ranking[0].name:
                whole_option = next(each for each in ranking if each.name == self.chosen.name)
                models[self.chosen.name] = learner.tried(
                    held.training, whole_option.parameters, 1.0
                )
        self.trial = models[self.chosen.name]

    def measure(self, learner: EvidenceLearner, held: HeldOut, length: int | None) -> None:
        """Say what the chosen option reaches, beside popularity.

        `length`: of histories that linear evidence reads, where it is to be decided upon.
        """
        assert self.trial is not None
        n_items = learner.n_items
        counts = np.bincount(held.training.objects, minlength=n_items).astype(np.float32)
        popular = gains_by_block(lambda part: np.tile(counts, (len(part), 1)), held.asked, n_items)
        self.baselines["popularity"] = float(popular.mean())
        gain = learned = evidence_gains(self.trial, held.asked)
        if length is not None:
            self.linear, gain, alone = choose_linear(
                self.trial, learner.linear(held.training), held.asked, length, learner.seed
            )
            self.baselines["low-rank EASE"] = alone["together"]
            self.reasons.append(about_linear(self.linear, learned.mean(), gain.mean()))
        self.reached = float(gain.mean())
        is_again = clicked_before(held.asked, np.asarray(held.asked.targets))
        if is_again.sum() > MIN_REPEATED * len(held.asked):
            self.reasons.append(
                f"{is_again.sum()} of {len(held.asked)} held-out clicks repeat an earlier click of "
                "the same user; `evaluate` also reports figures for new items alone."
            )
        self.warnings += about_popularity(gain, popular, is_again)


def affordable(
    ranking: Sequence[Option],
    trials: Sequence[Trial],
    grows: float,
    budget: float | None,
    *,
    may_shorten: bool = True,
) -> tuple[Option, float]:
    """Return the best option whose last training is no surprise, and its seconds.

    The best option; where that takes too long the best of one member, with fewer epochs if even
    this takes too long: a large log has as many steps in them. `grows`: how many times more
    targets than the trials the last training has. `budget`: seconds for the search; the last
    training may take a few times as long. `may_shorten`: whether epochs may be left out.
    """
    most = np.inf if budget is None else MAX_LAST_TRAINING * budget
    alone = [each for each in ranking if len(member_encoders(each.parameters["encoder"])) == 1]
    for option in (ranking[0], *alone[:1]):
        seconds = grows * whole_seconds(option, ranking, trials)
        if seconds <= most:
            return option, seconds
    most = max(most, NEVER_SHORTENED)
    if seconds <= most or not may_shorten:
        return option, seconds
    n_epochs = int(option.parameters["max_epochs"])
    n_left = max(1, int(n_epochs * most / seconds))
    shorter = replace(option, parameters={**option.parameters, "max_epochs": n_left})
    return shorter, seconds * n_left / n_epochs


def whole_seconds(option: Option, options: Sequence[Option], trials: Sequence[Trial]) -> float:
    """Return how long all epochs of all members of an option take on the clicks of the trials.

    Members are trained once for all options that have them, so the time of each is that of the
    options which have it alone, where one was tried.
    """
    of_name = {each.name: each for each in options}
    alone: dict[str | None, float] = {}
    own = 0.0
    for trial in trials:
        if trial.failed or trial.option not in of_name:
            continue
        tried = of_name[trial.option]
        encoders = member_encoders(tried.parameters["encoder"])
        whole = passes(tried.parameters, encoders[0], 1.0)
        seconds = trial.seconds * whole / passes(tried.parameters, encoders[0], trial.resource)
        if len(encoders) == 1:
            alone[encoders[0]] = max(seconds, alone.get(encoders[0], 0.0))
        if trial.option == option.name:
            own = max(own, seconds)
    members = member_encoders(option.parameters["encoder"])
    if all(each in alone for each in members):
        return sum(alone[each] for each in members)
    return own


def _too_long(
    ranking: Sequence[Option], taken: Option, trials: Sequence[Trial], grows: float
) -> str:
    """Say what the last training would have taken, and what was taken instead."""
    best = ranking[0]
    minutes = grows * whole_seconds(best, ranking, trials) / 60
    epochs, of = taken.parameters["max_epochs"], best.parameters["max_epochs"]
    instead = f"{taken.name!r}" + (f" with {epochs} of {of} epochs" if epochs < of else "")
    return (
        f"Training {best.name!r} on all clicks would have taken about {minutes:.0f} min; "
        f"{instead} was taken instead, and a larger budget takes the other."
    )


def _skipped(options: Sequence[Option], trials: Sequence[Trial], budget: float | None) -> str:
    """Return what a budget left no time for, in a sentence."""
    last = max(trial.rung for trial in trials)
    whole = {trial.option for trial in trials if trial.rung > 0}
    begun = {trial.option for trial in trials}
    untried = [option.name for option in options if option.name not in begun]
    if untried:
        what = f"{', '.join(untried)} not tried"
    elif last == 0:
        what = "the options were compared after a third of their epochs alone"
    else:
        what = f"only {', '.join(sorted(whole))} tried with all epochs"
    return f"The budget of {budget:.0f} s ended the search: {what}; a larger budget tries all."
