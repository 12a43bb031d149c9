"""Choosing the evidence model of a recommender on held-out clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from groupnoise.clicks.evaluation.ranking_slices import clicked_before
from groupnoise.clicks.evidence.averages import averages_to_try, larger_average
from groupnoise.clicks.evidence.linear import (
    Linear,
    add_linear,
    choose_linear,
    describe_linear,
    linear_length,
    linear_ranks,
    rescale_linear,
    sample_rows,
)
from groupnoise.clicks.evidence.model import (
    GAIN_CUT,
    MIN_HELD_OUT,
    Evidence,
    HeldOut,
    add_queries,
    evidence_gains,
    gains_by_block,
    hold_out_last,
    popularity_warning,
)
from groupnoise.clicks.evidence.options import (
    EvidenceLearner,
    click_options,
    count_epochs,
    member_encoders,
    sample_for_trials,
    with_fields,
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
"""Share of the options that are trained with all epochs: of seven the best alone."""
MIN_REPEATED = 0.05
"""Share of repeats among held-out clicks above which they are reported."""
MAX_FINAL_BUDGETS = 4.0
"""Budgets that the final training may take; beyond, a single member is trained."""
MIN_SHORTENED_SECONDS = 1800.0
"""Seconds up to which a single member has all its epochs, whatever the budget."""


class EvidenceFit(NamedTuple):
    """Trained evidence and the decisions behind it.

    `evidence`: trained on all clicks.
    `decisions`: the options, their trials and the choice.
    `records`: one per epoch of the final training.
    `trial`: evidence of the chosen option, trained without the held-out clicks.
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
) -> EvidenceFit:
    """Choose an evidence model on held-out clicks, and train it on all clicks.

    `explicit`: parameters that are given, not chosen.
    `linear`: linear evidence to add; see :data:`Linear`.
    `budget`: seconds after which no further option is tried.
    `validate`: called with the evidence after each epoch of the final training.
    `on_epoch`: called with a record after each epoch of the final training and of each trial.
    `saves`: where trainings are saved after each epoch, and resumed from.
    `moments`: filled with the optimizer state of each member after the final training.
    """
    learner = EvidenceLearner(n_items, int(generator.integers(1 << 31)), saves, moments)
    options = narrow(click_options(histories, n_items), explicit)
    sampled, others = sample_for_trials(histories, generator)
    held = hold_out_last(sampled, generator)
    if held is not None:
        held = add_queries(held, others, n_items, generator)
    length = linear_length(histories)
    found = _EvidenceSearch(options[0], {} if linear is None or isinstance(linear, str) else linear)
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
    on_all, records = learner.train(
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
            settled = rescale_linear(
                on_all, regressions, settled, held.queries, length, learner.seed
            )
        on_all = add_linear(on_all, regressions, settled, length)
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
    return EvidenceFit(on_all, decisions, records, found.trial, held)


@dataclass
class _EvidenceSearch:
    """The search for an evidence model on held-out clicks, and its result.

    `chosen`: the option to train on all clicks.
    `linear`: linear evidence to add, in units of `trial` where it was chosen here.
    `trial`: evidence of the chosen option, trained without these clicks.
    `reached`: its gain, with linear evidence.
    `expected`: estimated seconds of the final training.
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
        """Try the options and choose the best affordable one; `grows`: see `choose_affordable`."""
        models: dict[str, Evidence] = {}
        gained: dict[str, FloatArray] = {}

        def evaluate(option: Option, share: Any) -> FloatArray:
            models[option.name] = learner.train_trial(
                held.training,
                option.parameters,
                float(share),
                with_fields(on_epoch, trial=option.name),
            )
            gained[option.name] = evidence_gains(models[option.name], held.queries)
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
            self.reasons.append(_skipped_reason(options, search.trials, budget))
        self.chosen, self.expected = choose_affordable(
            ranking, tried, grows, budget, may_shorten="max_epochs" not in explicit
        )
        if self.chosen is not ranking[0]:
            self.reasons.append(_too_long_reason(ranking, self.chosen, tried, grows))
            if self.chosen.name != ranking[0].name:
                whole_option = next(each for each in ranking if each.name == self.chosen.name)
                models[self.chosen.name] = learner.train_trial(
                    held.training, whole_option.parameters, 1.0
                )
        self.trial = models[self.chosen.name]

    def measure(self, learner: EvidenceLearner, held: HeldOut, length: int | None) -> None:
        """Evaluate the chosen option, with popularity and linear evidence.

        `length`: of histories for linear evidence, None where that is not chosen here.
        """
        assert self.trial is not None
        n_items = learner.n_items
        counts = np.bincount(held.training.objects, minlength=n_items).astype(np.float32)
        # Linear evidence is chosen on as many clicks as fit in memory; all figures are of these.
        queries = held.queries
        if length is not None:
            queries = sample_rows(queries, n_items, learner.seed)
        popular = gains_by_block(lambda part: np.tile(counts, (len(part), 1)), queries, n_items)
        self.baselines["popularity"] = float(popular.mean())
        gain = learned = evidence_gains(self.trial, queries)
        if length is not None:
            self.linear, gain, alone = choose_linear(
                self.trial, learner.linear(held.training), queries, length, learner.seed
            )
            self.baselines["low-rank EASE"] = alone["together"]
            self.reasons.append(describe_linear(self.linear, learned.mean(), gain.mean()))
        self.reached = float(gain.mean())
        is_again = clicked_before(queries, np.asarray(queries.targets))
        if is_again.sum() > MIN_REPEATED * len(queries):
            self.reasons.append(
                f"{is_again.sum()} of {len(queries)} held-out clicks repeat an earlier click "
                "of the same user; `evaluate` also reports figures for new items alone."
            )
        self.warnings += popularity_warning(gain, popular, is_again)


def choose_affordable(
    ranking: Sequence[Option],
    trials: Sequence[Trial],
    grows: float,
    budget: float | None,
    *,
    may_shorten: bool = True,
) -> tuple[Option, float]:
    """Return the best option whose final training is affordable, and its estimated seconds.

    Where the best option takes too long, the best with a single member, with fewer epochs if even
    that takes too long. `grows`: targets of the final training per target of a trial. `budget`:
    seconds of the search; the final training may take a few times as long. `may_shorten`: whether
    epochs may be reduced.
    """
    most = np.inf if budget is None else MAX_FINAL_BUDGETS * budget
    alone = [each for each in ranking if len(member_encoders(each.parameters["encoder"])) == 1]
    for option in (ranking[0], *alone[:1]):
        seconds = grows * estimate_seconds(option, ranking, trials)
        if seconds <= most:
            return option, seconds
    most = max(most, MIN_SHORTENED_SECONDS)
    if seconds <= most or not may_shorten:
        return option, seconds
    n_epochs = int(option.parameters["max_epochs"])
    n_left = max(1, int(n_epochs * most / seconds))
    shorter = replace(option, parameters={**option.parameters, "max_epochs": n_left})
    return shorter, seconds * n_left / n_epochs


def estimate_seconds(option: Option, options: Sequence[Option], trials: Sequence[Trial]) -> float:
    """Estimate the seconds of all epochs of all members of an option on the clicks of the trials.

    Members are trained once for all options that share them, so each is timed by the option that
    has it alone, if that was tried.
    """
    of_name = {each.name: each for each in options}
    alone: dict[str | None, float] = {}
    own = 0.0
    for trial in trials:
        if trial.failed or trial.option not in of_name:
            continue
        tried = of_name[trial.option]
        encoders = member_encoders(tried.parameters["encoder"])
        whole = count_epochs(tried.parameters, encoders[0], 1.0)
        seconds = (
            trial.seconds * whole / count_epochs(tried.parameters, encoders[0], trial.resource)
        )
        if len(encoders) == 1:
            alone[encoders[0]] = max(seconds, alone.get(encoders[0], 0.0))
        if trial.option == option.name:
            own = max(own, seconds)
    members = member_encoders(option.parameters["encoder"])
    if all(each in alone for each in members):
        return sum(alone[each] for each in members)
    return own


def _too_long_reason(
    ranking: Sequence[Option], taken: Option, trials: Sequence[Trial], grows: float
) -> str:
    """Return the reason why another option was taken than the best."""
    best = ranking[0]
    minutes = grows * estimate_seconds(best, ranking, trials) / 60
    epochs, of = taken.parameters["max_epochs"], best.parameters["max_epochs"]
    instead = f"{taken.name!r}" + (f" with {epochs} of {of} epochs" if epochs < of else "")
    return (
        f"Training {best.name!r} on all clicks would have taken about {minutes:.0f} min; "
        f"{instead} was taken instead, and a larger budget takes the other."
    )


def _skipped_reason(
    options: Sequence[Option], trials: Sequence[Trial], budget: float | None
) -> str:
    """Return a sentence on the options that a spent budget left out."""
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
