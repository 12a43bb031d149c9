"""The averages of members that are tried with all epochs, and the choice between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupnoise.clicks.evidence.options import DEEP, member_encoders
from groupnoise.core.arrays import FloatArray
from groupnoise.decisions.halving import is_tied
from groupnoise.decisions.portfolio import Option
from groupnoise.decisions.record import Trial

TIED_ERRORS = 1.0
"""Standard errors, paired by held-out click, within which averages are tied."""


def averages_to_try(ranking: Sequence[Option], trials: Sequence[Trial]) -> list[Option]:
    """Return the averages of members that must be tried with all epochs too.

    A member that overfits may lead after a third of its epochs and fall behind with all of them:
    averages overfit less. And an average that includes the leader and lies within the error of the
    trial may be better by chance alone. Averages cost little more than their members.

    Result: averages not yet tried with all epochs; where the leader is an average that improved,
    only those that add cheap members to it. `ranking`: best first. `trials`: of the search, rung by
    rung.
    """
    leader = member_encoders(ranking[0].parameters["encoder"])
    own = [trial for trial in trials if trial.option == ranking[0].name]
    if len(own) < 2 or own[0].score is None or own[-1].score is None:
        return []
    whole = {trial.option for trial in trials if trial.rung > 0}
    averages = [
        option
        for option in ranking
        if option.name not in whole and len(member_encoders(option.parameters["encoder"])) > 1
    ]
    if own[-1].score <= own[0].score:
        return averages
    level = own[0].score - (own[0].std_error or 0.0)
    near = {trial.option for trial in trials if trial.score is not None and trial.score >= level}

    def is_cheap(option: Option) -> bool:
        members = member_encoders(option.parameters["encoder"])
        return leader[0] in members and (DEEP in leader or DEEP not in members)

    if len(leader) > 1:
        return [
            option
            for option in averages
            if set(leader) < set(member_encoders(option.parameters["encoder"])) and is_cheap(option)
        ]
    return [option for option in averages if option.name in near and is_cheap(option)][:1]


def larger_average(ranking: Sequence[Option], gained: Mapping[str, FloatArray]) -> Option | None:
    """Return the largest average that includes all members of the leading one and is tied with it.

    Which of tied averages leads is chance, and one of more members overfits less. None where the
    leader is not an average, or no larger one is tied. `ranking`: best first. `gained`: the gain of
    each held-out click, by option tried with all epochs.
    """
    leader = member_encoders(ranking[0].parameters["encoder"])
    best = gained.get(ranking[0].name)
    if len(leader) < 2 or best is None:
        return None
    larger = [
        option
        for option in ranking
        if set(leader) < set(member_encoders(option.parameters["encoder"]))
        and option.name in gained
        and is_tied(best, gained[option.name], TIED_ERRORS)
    ]
    return max(
        larger, key=lambda each: len(member_encoders(each.parameters["encoder"])), default=None
    )
