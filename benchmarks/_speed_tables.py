"""Tables of docs/performance.md from the result files of benchmarks/speed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from _record import markdown


def step_time_table(result: dict[str, Any]) -> str:
    """One line per number of threads, selection and reference implementation."""
    rows = []
    for threads, comparisons in result["comparisons"].items():
        for name, found in comparisons.items():
            for other, words in (
                ("authors_arrangement", "their arrangement"),
                ("authors_loop", "their public loop"),
            ):
                for ours, suffix in (("ours_ms", ""), ("compiled_ms", "_compiled")):
                    if f"{other}_ratio{suffix}" not in found:
                        continue
                    label = name + (", with numba" if suffix else "")
                    milliseconds = [f"{found[each]:.1f}" for each in (f"{other}_ms", ours)]
                    ratio = f"**{found[f'{other}_ratio{suffix}']:.1f}**"
                    goal = f"{found['wanted']:.0f}" if other == "authors_arrangement" else ""
                    about = [threads.removeprefix("threads "), label, words]
                    rows.append([*about, *milliseconds, ratio, goal])
    header = ["threads", "selection", "against", "theirs, ms", "ours, ms", "times", "goal"]
    return _table(header, rows, result)


def start_up_table(result: dict[str, Any]) -> str:
    """One line per command."""
    rows = _rows(result["starts"], "{seconds:.2f}", "{processor_seconds:.2f}", "{goal}")
    taken = max(each["others_took"] for each in result["starts"].values())
    return _table(["started", "seconds", "of the processors", "goal"], rows, result) + (
        f" Others took up to {taken:.1f} of two cores meanwhile."
    )


def busy_cores_table(result: dict[str, Any]) -> str:
    """One line per task."""
    rows = _rows(result["seconds"], "{idle:.2f}", "{busy:.2f}", "**{ratio:.2f}**")
    return _table(["task", "idle, s", "one core busy, s", "times (goal 2.2)"], rows, result)


def busy_solvers_table(result: dict[str, Any]) -> str:
    """One line per solution in closed form, by the clock and by the processor."""
    rows = []
    for name, found in result["seconds"].items():
        every, rule = found["all, busy"], found["rule, busy"]
        ways = (found[way] for way in ("all, idle", "all, busy", "rule, idle", "rule, busy"))
        cells = ["{clock:.2f} ({processor:.2f})".format(**seconds) for seconds in ways]
        rows.append([name, *cells, f"**{every['clock'] / rule['clock']:.1f}**"])
    header = ["solved", "all threads, s", "and a burner", "the rule, s", "and a burner", "times"]
    return _table(header, rows, result) + (
        f" In brackets: of the processors. Others took {result['others_took']:.1f} of two cores "
        "meanwhile."
    )


def fits_table(result: dict[str, Any]) -> str:
    """One line per fit."""
    rows = _rows(result["processor_seconds"], "{before:.1f}", "{after:.1f}", "**{ratio:.2f}**")
    header = ["fit", "before, processor s", "after, processor s", "times (goal 2)"]
    return _table(header, rows, result)


def profile_table(result: dict[str, Any]) -> str:
    """One line per part of a step, before and after."""
    before, after = result["milliseconds"]["before"], result["milliseconds"]["after"]
    rows = [[part, f"{before[part]:.2f}", f"{after[part]:.2f}"] for part in after]
    rows.append(["all", f"{sum(before.values()):.2f}", f"{sum(after.values()):.2f}"])
    return _table(["part of a step", "before, ms", "after, ms"], rows, result)


def limits_table(result: dict[str, Any]) -> str:
    """One line per kind of work, with the limits of the machine and of bare calls."""
    parts = ("products", "memory", "bare", "ours")
    forms = [f"{{{part}_ms:.1f}}" for part in parts]
    rows = _rows(result["rows"], *forms, "**{share_of_bare:.0%}**")
    header = ["work", "products, ms", "memory, ms", "bare calls, ms", "ours, ms", "of bare calls"]
    rates = result["rates"]
    return _table(header, rows, result) + (
        f" A square product makes {rates['operations_per_second'] / 1e9:.0f}·10⁹ operations a "
        f"second, a triad moves {rates['bytes_per_second'] / 1e9:.1f} GB."
    )


MAX_LOAD = 3.0
"""Load of the machine, ours included, beyond which a clock is not shown."""


def history_threads_table(result: dict[str, Any]) -> str:
    """One line per way to train on long histories, and the time of products alone below."""
    # On cores with other work the clock says nothing.
    is_quiet = result["load"] <= MAX_LOAD
    return markdown(
        ("way", "seconds", "of the processors"),
        (
            (r["way"], f"{r['seconds']:.1f}" if is_quiet else "", f"{r['processor_seconds']:.1f}")
            for r in result["rows"]
        ),
        f"Products alone, with {result['config']['scores of a target']} scores of a target: "
        f"{result['bound']:.1f} s of one core; load of the machine {result['load']:.1f}. "
        f"`{result['command']}`.",
    )


def epochs_table(result: dict[str, Any]) -> str:
    """One line per log and kind of member."""
    forms = ("{log}", "{member}", "{epoch:.1f}", "{ranking:.1f}", "{load:.1f}")
    ordered = sorted(result["rows"], key=lambda row: (row["log"], row["member"]))
    rows = [[form.format(**row) for form in forms] for row in ordered]
    return _table(["log", "member", "epoch, s", "ranking, s", "load of two cores"], rows, result)


def exact_softmax_table(result: dict[str, Any]) -> str:
    """One line per number of threads, and the memory below."""
    found = {name.removeprefix("threads "): each for name, each in result["figures"].items()}
    rates = ("{billions_of_operations_per_second:.0f}", "{of_a_square_product:.0f}")
    rows = _rows(found, "{seconds:.1f}", *rates, "{share:.0%}")
    header = ["threads", "seconds", "10⁹ operations/s", "square product", "fraction (goal 60 %)"]
    memory = (
        f"Extra memory {result['extra_megabytes']:.0f} MB (goal below "
        f"{result['wanted']['extra_megabytes_below']}), of which the gradient is "
        f"{result['gradient_megabytes_of_these']:.0f} MB; largest difference from the dense "
        f"formula at small size {result['largest_difference_from_dense']:.0e}."
    )
    return _table(header, rows, result) + " " + memory


def full_ranking_table(result: dict[str, Any]) -> str:
    """One line per reading of the model."""
    wanted = result["configuration"]["seconds_wanted"]
    rows = _rows(result["figures"], "{best_seconds:.1f}", f"{wanted:.0f}")
    return _table(["reading", "seconds", "goal below"], rows, result)


def time_to_hit_table(result: dict[str, Any]) -> str:
    """One line per epoch."""
    curve = {str(epoch): point for epoch, point in enumerate(result["curve"], 1)}
    rows = _rows(curve, "{training_seconds:.0f}", "{hit@10:.3f}")
    reached = "; ".join(
        f"{goal} "
        + ("was not reached" if found["seconds"] is None else f"after {found['seconds']:.0f} s")
        + f" (goal below {found['wanted_below']:.0f} s)"
        for goal, found in result["reached"].items()
    )
    header = ["epoch", "seconds of training", "HIT@10"]
    return _table(header, rows, result) + f" {reached}."


def catalogue_growth_table(result: dict[str, Any]) -> str:
    """One line per size of the catalogue."""
    times = result["milliseconds_by_items"].items()
    rows = [[_grouped(int(items)), f"{milliseconds:.1f}"] for items, milliseconds in times]
    return (
        _table(["items", "ms a step"], rows, result)
        + f" Slowest {result['slowest_over_fastest']:+.0%} over the fastest (goal "
        f"within {result['wanted_below']:.0%})."
    )


def growth_table(result: dict[str, Any]) -> str:
    """One line per quantity that grows."""
    rows = [
        [
            name,
            f"{sweep['values'][0]} – {sweep['values'][-1]}",
            *(
                "–" if sweep["exponents"][key] is None else f"{sweep['exponents'][key]:.2f}"
                for key in ("seconds", "megabytes")
            ),
        ]
        for name, sweep in result["sweeps"].items()
    ]
    return _table(["what grows", "range", "exponent of time", "of memory"], rows, result)


def scale_table(result: dict[str, Any]) -> str:
    """One column per size of the log, one line per stage."""
    done = [row for row in result["rows"] if "serve" in row["stages"]]

    def describe(stage: dict[str, Any]) -> str:
        taken = f"{stage['seconds']:.0f} s"
        if "processor_seconds" in stage:
            taken += f" ({stage['processor_seconds']:.0f} s of processors)"
        memory = f", {stage['own_gb']:.2f} GB" if "own_gb" in stage else ""
        return f"{taken}, {_grouped(stage['clicks_per_second'])} clicks/s{memory}"

    lines = [["users, items", *(f"{_grouped(r['users'])}, {_grouped(r['items'])}" for r in done)]]
    for name in ("generate", "convert", "fit", "evaluate", "export"):
        lines.append([name, *(describe(row["stages"][name]) for row in done)])
    fits = [(row["stages"]["fit"], row["stages"]["fit"]["estimated"]) for row in done]
    workers = result["settings"]["workers"]
    lines += [
        [
            "the fit, processor seconds of a worker: measured, by `estimate_cost`",
            *(
                f"{fit['processor_seconds'] / workers:.0f}, "
                f"{told_of['processor_seconds_per_worker']:.0f}"
                for fit, told_of in fits
            ),
        ],
        [
            "the fit, memory of a worker: its own, by `estimate_cost`",
            *(f"{fit['own_gb']:.2f}, {told_of['gb_per_worker']:.2f} GB" for fit, told_of in fits),
        ],
        [
            "serve: ready, requests a second, memory",
            *(
                f"{one['ready_seconds']:.1f} s, {one['requests_per_second']:.0f}, "
                f"{one['own_gb']:.2f} GB"
                for one in (row["stages"]["serve"] for row in done)
            ),
        ],
        [
            "most on disk at once",
            *(f"{max(s['folder_gb'] for s in row['stages'].values()):.2f} GB" for row in done),
        ],
        [
            "full HIT@10 of the held-out sample, popularity",
            *(
                f"{one['full HIT@10']:.3f}, {one['popularity']['full HIT@10']:.4f}"
                for one in (row["stages"]["evaluate"] for row in done)
            ),
        ],
    ]
    header = ["", *(f"{row['clicks'] / 1e6:g} million clicks" for row in done)]
    return _table(header, lines, result)


def _rows(found: dict[str, dict[str, Any]], *forms: str) -> list[list[str]]:
    """Return a row for each name: the name, and its values in each of some format strings."""
    return [[name, *(form.format(**each) for form in forms)] for name, each in found.items()]


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _table(header: list[str], rows: Iterable[list[str]], result: dict[str, Any]) -> str:
    threads = result["configuration"].get("torch_threads") if "configuration" in result else None
    threads_used = "" if threads is None else f", {threads} thread" + ("s" if threads > 1 else "")
    return markdown(header, rows, f"`{result['command']}`{threads_used}.")


def out_of_core_table(result: dict[str, Any]) -> str:
    """Return the accuracy of each way to shuffle."""
    figures = ("HIT@10", "NDCG@10")
    return markdown(
        ("mixed at a time", *figures),
        (
            (
                f"{100 * row['share mixed at a time']:.0f} % of {result['windows']} windows",
                *(f"{row[each]['mean']:.4f} ± {row[each]['deviation']:.4f}" for each in figures),
            )
            for row in result["rows"]
        ),
        f"`{result['command']}`, seeds {', '.join(map(str, result['seeds']))}.",
    )
