"""Off-policy evaluation: the click-through of a policy from impressions logged by another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.clicks.evaluation.recall_metrics import Interval, bootstrap_ratios, interval_ends
from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.columns.roles import check_column, require_column
from groupnoise.io.tables.cells import read_id_cells, read_numbers
from groupnoise.io.tables.sources import Guesses, Report
from groupnoise.io.tables.table import Table, read_table

REQUEST, VERSION = "request_id", "version"
"""Columns of the feedback log of a service."""
FAR_FROM_ONE = 0.1
"""Distance of the mean weight from 1 above which a warning is given, beyond chance."""
MIN_EFFECTIVE_ROWS = 100
"""Effective rows below which an estimate and its interval are unreliable."""


@dataclass(frozen=True)
class Impressions:
    """Logged impressions with propensities and clicks.

    `users`, `items`: ids.
    `propensity`: the probability that the item was shown: over all items it sums to one.
    `clicked`: whether it was clicked.
    `targets`: the probabilities of other policies, where the log has them.
    `versions`: the version of the model that showed the item, where the log has it.
    """

    users: NDArray[Any]
    items: NDArray[Any]
    propensity: FloatArray
    clicked: NDArray[np.bool_]
    targets: Mapping[str, FloatArray] = field(default_factory=dict)
    versions: NDArray[Any] | None = None


@dataclass(frozen=True)
class ReplayedPolicy:
    """The estimated click-through of a policy.

    `name`: of the policy.
    `ips`: click-through by inverse propensity: unbiased, of high variance.
    `snips`: the same divided by the mean weight: slightly biased, far steadier.
    `ahead`: `snips` less the click-through of the log itself, on the same draws of users.
    `n_effective`: the effective sample size of the weights.
    `shown`: share of the logged rows that the policy could have shown.
    `max_weight`: the largest weight, after clipping.
    `mean_weight`: mean of the weights before clipping and its interval; 1 where propensities are
        right and the log covers everything that the policy shows.
    """

    name: str
    ips: Interval
    snips: Interval
    ahead: Interval
    n_effective: float
    shown: float
    max_weight: float
    mean_weight: Interval


def read_impressions(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    propensity: str | None = None,
    clicked: str | None = None,
    targets: Sequence[str] = (),
    report: Report | None = None,
    **table_options: Any,
) -> Impressions:
    """Read a log of impressions, one row per item shown, or the feedback that a service kept.

    Where rows have a `request_id`, a click may stand in a row of its own, without a propensity:
    it is joined to the impression of the same request and item.

    `source`: as :func:`~groupnoise.clicks.read_clicks` takes it. `user`, `item`, `propensity`,
    `clicked`: columns; guessed by name if not given. `targets`: columns with the probabilities of
    other policies. `table_options`: passed to `read_table`: `format`, `separator`, `header`,
    `decimal`, `sheet`, `encoding`. Raises DataError if a propensity is not above 0 and at most 1,
    or a click not 0 or 1.
    """
    guesses = Guesses(report)
    table = read_table(source, report=guesses, **table_options)
    given = {"user": user, "item": item, "propensity": propensity, "clicked": clicked}
    columns: dict[str, str] = {}
    for part, name in given.items():
        columns[part] = require_column(
            part,
            name,
            table.frame.columns,
            origin=table.origin,
            report=guesses,
            taken=[*columns.values(), *targets],
        )
    if REQUEST in table.frame.columns:
        table = _with_later_clicks(table, columns, guesses)
    chances = _read_chances(table, columns["propensity"], least_is_allowed=False)
    clicks = _read_clicked(table, columns["clicked"])
    return Impressions(
        users=read_id_cells(table, columns["user"]).to_numpy(),
        items=read_id_cells(table, columns["item"]).to_numpy(),
        propensity=chances,
        clicked=clicks,
        targets={name: _read_chances(table, name, least_is_allowed=True) for name in targets},
        versions=_read_versions(table),
    )


def logged_by_version(impressions: Impressions, *, seed: int = 0) -> dict[str, Interval]:
    """Return the click-through of each version that the log names, with 95 % intervals."""
    found: dict[str, Interval] = {}
    if impressions.versions is None:
        return found
    for version in np.unique(impressions.versions).tolist():
        rows = impressions.versions == version
        clicks = impressions.clicked[rows].astype(np.float64)
        draws = bootstrap_ratios(
            clicks, np.ones(len(clicks)), impressions.users[rows], random_state=seed
        )
        found[version] = Interval(float(clicks.mean()), *interval_ends(draws))
    return found


def replay_policy(
    impressions: Impressions,
    target: FloatArray,
    *,
    name: str = "policy",
    clip: float | None = None,
    seed: int = 0,
) -> ReplayedPolicy:
    r"""Estimate the click-through of a policy from what another one showed.

    With weights :math:`w_i = \pi(a_i \mid x_i) / p_i` and clicks c,

    .. math::
        \text{IPS} = \frac{1}{n} \sum_i w_i c_i, \qquad
        \text{SNIPS} = \frac{\sum_i w_i c_i}{\sum_i w_i}.

    `target`: the probability of the item of each row under the policy. `clip`: the largest weight
    of a row: less variance, but a bias towards the log. Raises DataError if the log
    shows nothing that the policy would.

    Examples
    --------
    >>> log = Impressions(np.arange(4), np.arange(4), np.full(4, 0.5), np.array([1, 0, 1, 1]) > 0)
    >>> found = replay_policy(log, np.array([1.0, 1.0, 0.0, 0.0]))
    >>> found.ips.mean, found.snips.mean
    (0.5, 0.5)
    """
    unclipped = np.asarray(target, dtype=np.float64) / impressions.propensity
    weights = unclipped
    if clip is not None:
        check_positive("clip", clip)
        weights = np.minimum(weights, clip)
    if not weights.sum() > 0:
        raise DataError(
            f"the log shows nothing that {name} would show, so it cannot be estimated; log with a "
            "policy that sometimes shows anything, or let more items be shown."
        )
    clicks = impressions.clicked.astype(np.float64)
    ones = np.ones(len(clicks))
    users = impressions.users
    ips = bootstrap_ratios(weights * clicks, ones, users, random_state=seed)
    snips = bootstrap_ratios(weights * clicks, weights, users, random_state=seed)
    logged = bootstrap_ratios(clicks, ones, users, random_state=seed)
    means = bootstrap_ratios(unclipped, ones, users, random_state=seed)
    value = float((weights * clicks).sum() / weights.sum())
    return ReplayedPolicy(
        name,
        ips=Interval(float((weights * clicks).mean()), *interval_ends(ips)),
        snips=Interval(value, *interval_ends(snips)),
        ahead=Interval(value - float(clicks.mean()), *interval_ends(snips - logged)),
        n_effective=float(weights.sum() ** 2 / np.square(weights).sum()),
        shown=float((weights > 0).mean()),
        max_weight=float(weights.max()),
        mean_weight=Interval(float(unclipped.mean()), *interval_ends(means)),
    )


def chances_of_model(
    fitted: Any, impressions: Impressions, histories: Mapping[Any, Sequence[Any]], *, top: int = 10
) -> FloatArray:
    """Return the probability of each logged item under a recommender: one of its best, uniformly.

    `histories`: what each user had clicked before; a user without history is answered by
    popularity. `top`: how many items a user may be shown; of a user who has seen nearly all items
    there are fewer, each of which is shown the more often.
    """
    check_count("top", top)
    users, row_user = np.unique(impressions.users, return_inverse=True)
    user_histories = [list(histories.get(user, ())) for user in users.tolist()]
    lists, scores = fitted.recommend(user_histories, top=top)
    is_listed = scores > -np.inf
    items = fitted.catalogue_.convert_ids(impressions.items)
    is_shown = ((lists[row_user] == items[:, None]) & is_listed[row_user]).any(axis=1)
    return np.where(is_shown, 1.0 / np.maximum(is_listed.sum(axis=1), 1)[row_user], 0.0)


def replay_warnings(policy: ReplayedPolicy) -> tuple[str, ...]:
    """Return warnings about an estimate, a sentence each."""
    warnings = []
    mean = policy.mean_weight
    is_chance = mean.low <= 1 <= mean.high
    if abs(mean.mean - 1) > FAR_FROM_ONE and not is_chance:
        why = (
            "the log never shows part of what it would show, or propensities are too large"
            if mean.mean < 1
            else "propensities are too small, or its chances sum to more than 1"
        )
        warnings.append(
            f"{policy.name}: weights average {mean.mean:.2f}, where right propensities give about "
            f"1: {why}. Check that a propensity is the chance of that item in that place, not of "
            "its list and not a score; SNIPS bears a constant factor, IPS does not."
        )
    if policy.n_effective < MIN_EFFECTIVE_ROWS:
        warnings.append(
            f"{policy.name}: the estimate rests on {policy.n_effective:.0f} rows' worth of "
            f"impressions; below {MIN_EFFECTIVE_ROWS} intervals are too narrow."
        )
    return tuple(warnings)


def _with_later_clicks(table: Table, columns: Mapping[str, str], report: Report) -> Table:
    """Return one row per impression, clicked where any row of its request and item says so."""
    keys = [REQUEST, columns["user"], columns["item"]]
    chance, clicked = columns["propensity"], columns["clicked"]
    frame = table.frame.with_columns(pl.col(clicked).max().over(keys))
    is_first = pl.col(chance).is_not_null() & (
        pl.col(chance).is_not_null().cast(pl.Int64).cum_sum().over(keys) == 1
    )
    rows = np.flatnonzero(frame.select(is_first).to_series().to_numpy())
    n_lost = frame.filter(pl.col(chance).is_not_null().any().over(keys).not_()).height
    if n_lost:
        report(f"left out {counted(n_lost, 'clicks')} on items without an impression")
    return replace(table, frame=frame).take(rows)


def _read_versions(table: Table) -> NDArray[Any] | None:
    if VERSION not in table.frame.columns:
        return None
    versions: NDArray[Any] = table.frame[VERSION].cast(pl.String).fill_null("").to_numpy()
    return versions.astype(str)


def _read_chances(table: Table, column: str, *, least_is_allowed: bool) -> FloatArray:
    check_column(column, table.frame.columns, table.origin, "with chances of a policy")
    values = read_numbers(table, column)
    is_wrong = (values > 1) | (values < 0 if least_is_allowed else values <= 0)
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        bound = "at least 0" if least_is_allowed else "above 0, as the item was shown,"
        raise DataError(
            f"{table.locate(row)}: {column} is {values[row]:g}, but a chance is {bound} and at "
            "most 1; correct or drop that row."
        )
    return values


def _read_clicked(table: Table, column: str) -> NDArray[np.bool_]:
    cells = table.frame[column]
    if cells.dtype == pl.Boolean and not cells.null_count():
        return cells.to_numpy()
    values = read_numbers(table, column)
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if len(wrong):
        raise DataError(
            f"{table.locate(int(wrong[0]))}: {column} is {values[wrong[0]]:g}; a row was clicked "
            "(1) or not (0)."
        )
    return values == 1
