"""Tables of docs/deployment.md and docs/going_on.md from the result files of the service."""

from __future__ import annotations

from typing import Any

from _record import markdown

RULES = {"paper": "the paper's MM+", "default": "default `fit`"}


def service_table(result: dict[str, Any]) -> str:
    """One column per way to score, and the time to ready below."""
    mm, plus = result["sixteen_clients"]["mm"], result["sixteen_clients"]["mm+"]
    rows = {
        "requests a second": "{service_per_second}",
        "latency, median and 99th percentile": "{service_p50_ms} and {service_p99_ms} ms",
        "processor time per request, HTTP included": "{service_processor_ms_per_request} ms",
        "against sixteen in-process threads, a history each": "{share_of_sixteen_threads} times",
        "against one in-process thread, a history per call": "{share_of_one_per_call} times",
        "against one in-process thread, sixteen per call": "{share_of_sixteen_per_call} times",
    }
    config, ready = result["configuration"], result["start_to_ready_seconds"]
    about = f"{config['items']:,} items, {config['clients']} clients".replace(",000", " 000")
    return markdown(
        [about, "last click (MM)", "five clicks (MM+)"],
        ([name, form.format(**mm), form.format(**plus)] for name, form in rows.items()),
        f"From start to ready: {ready['median']} s on the clock, {ready['processor_seconds']} s of "
        f"processor time. Load average before the run {config['load_average']:.1f}; "
        f"`{result['command']}`.",
    )


def framework_table(result: dict[str, Any]) -> str:
    """One line per rule and number of clients, then the large catalogue and processes."""
    lines = []
    for rule, name in RULES.items():
        for clients, found in result[f"small_catalogue_{rule}"].items():
            ours, bare = found["service"]["processor_us"], found["bare_route"]["processor_us"]
            shares = (
                f"**{found['share_by_processor_time']:.2f}**",
                f"{found['share_of_bare_rate']:.2f}",
            )
            ratio = f"{found['p99_over_p50']:.1f}"
            lines.append([name, clients, f"{ours:.0f} µs", f"{bare:.0f} µs", *shares, ratio])
    large, processes = result["large_catalogue_16_clients"], result["processes_64_clients"]
    load = result["load_average"]
    head = ["1000 items, one history a request", "clients", "processor time per request"]
    head += ["bare route", "share of the bare route, processor time", "on the clock"]
    return markdown(
        [*head, "p99 over median"],
        lines,
        f"100 000 items of 64 dimensions, MM+, 16 clients: {large['share_of_scoring']:.2f} of the "
        "rate of scoring alone in batches of sixteen on the clock, "
        f"{large['share_of_scoring_by_processor_time']:.2f} by processor time. Two processes "
        "beside one, 64 clients: "
        + "; ".join(
            f"{name} catalogue {found['rate_against_one']:.2f} times the rate, "
            f"{found['rate_against_one_by_processor_time']:.2f} by processor time"
            for name, found in processes.items()
        )
        + f". Load average {load['before']:.1f} before and {load['after']:.1f} after, on "
        f"{result['hardware']['cores']} cores that the load generator shares: where it is above "
        f"them, only processor time says something; `{result['command']}`.",
    )


def cold_items_table(result: dict[str, Any]) -> str:
    """One column per log; new items by method, and the loss on known items."""
    logs = result["logs"]
    first = next(iter(logs.values()))
    alone = [log["hit@10"]["features"].get("all, one at a time") for log in logs.values()]
    cells = {
        f"among new items: {name}": [f"{log['hit@10'][name]['new']:.3f}" for log in logs.values()]
        for name in first["hit@10"]
    }
    shares = [log["hit@10"]["features"]["all"] for log in logs.values()]
    cells["new items among all: features"] = [f"{share:.4f}" for share in shares]
    cells["the same, each new item added alone"] = [
        "" if share is None else f"{share:.4f}" for share in alone
    ]
    for name in first["known_items_hit@10"]:
        known = [log["known_items_hit@10"][name] for log in logs.values()]
        cells[f"known items: {name}"] = [f"{share:.4f}" for share in known]
    queries = ", ".join(f"{log['questions']} clicks ({name})" for name, log in logs.items())
    note = f"Asked: {queries}; one seed; `{result['command']}`."
    return markdown(["HIT@10", *logs], ([name, *row] for name, row in cells.items()), note)
