"""Write the tables of README and docs from the result files, or check that they are not stale.

python benchmarks/readme_tables.py            # write them
python benchmarks/readme_tables.py --check    # exit code 1 if they differ
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from _evidence_tables import (
    ablation_order_table,
    ablation_table,
    click_chance_table,
    difference_table,
    folds_table,
    ten_folds_table,
    wider_grids_table,
)
from _label_tables import (
    accuracy_table,
    annotator_table,
    auroc_table,
    bag_set_table,
    bag_table,
    question_table,
    real_table,
    set_table,
)
from _recall_tables import (
    among_100_table,
    chance_table,
    leave_one_out_table,
    metrics_table,
    published_table,
    replay_table,
    speed_table,
    time_split_table,
)
from _record import RESULTS, markdown
from _reproduction_tables import (
    background_cost_table,
    best_baseline_table,
    budget_table,
    candidate_search_table,
    normalisation_search_table,
    recall_search_table,
    recall_test_table,
    reproduction_table,
    smoothing_table,
)
from _serving_tables import cold_items_table, framework_table, service_table
from _speed_tables import (
    busy_cores_table,
    busy_solvers_table,
    catalogue_growth_table,
    epochs_table,
    exact_softmax_table,
    fits_table,
    full_ranking_table,
    growth_table,
    history_threads_table,
    limits_table,
    out_of_core_table,
    profile_table,
    scale_table,
    start_up_table,
    step_time_table,
    time_to_hit_table,
)
from _tradeoff_report import trade_off_choices, trade_off_sets
from _unseen_tables import (
    bag_accuracy_table,
    bag_ranks,
    bag_tables,
    candidates_table,
    clicks_table,
    draws_table,
    later_table,
    unseen_table,
)

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

SETTINGS = {"mil": "bags of digits", "pll": "digits with candidates", "rs": "simulated shop"}
METHODS = {
    "pairwise": "Pairwise",
    "matching": "Matching",
    "maximizing": "Maximizing",
    "max_matching_paper": "Max-Matching, hard max",
    "max_matching": "**Max-Matching**",
    "supervised": "supervised (upper bound)",
}


def demo_table(result: dict[str, Any]) -> str:
    """One line per method, one column per setting and metric, and the seeds below."""
    rows = result["demo"]["rows"]
    columns = list(dict.fromkeys((row["setting"], row["metric"]) for row in rows))
    cells = {
        (row["setting"], row["metric"], row["method"]): f"{row['mean']:.3f} ± {row['std']:.3f}"
        for row in rows
    }
    seeds = ", ".join(map(str, result["seeds"]["demo"]))
    return markdown(
        ["", *(f"{SETTINGS[setting]}: {metric}" for setting, metric in columns)],
        (
            [name, *(cells.get((*column, method), "") for column in columns)]
            for method, name in METHODS.items()
        ),
        f"Mean and standard deviation over seeds {seeds}; `{result['command']}`.",
    )


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "tradeoff:sets": trade_off_sets,
    "tradeoff:choices": trade_off_choices,
    "annotators": partial(annotator_table, "accuracy"),
    "annotators:look": partial(annotator_table, "first tenth wrong"),
    "resolve_real": real_table,
    "prediction_sets": set_table,
    "prediction_sets:bags": bag_set_table,
    "queries": question_table,
    "demo": demo_table,
    "background_cost_hja-birdsong": background_cost_table,
    "candidate_search": candidate_search_table,
    "normalisation_search": normalisation_search_table,
    "catalogue_growth": catalogue_growth_table,
    "epochs": epochs_table,
    "history_threads": history_threads_table,
    "exact_softmax": exact_softmax_table,
    "busy_cores": busy_cores_table,
    "busy_solvers": busy_solvers_table,
    "fits": fits_table,
    "full_ranking": full_ranking_table,
    "growth": growth_table,
    "limits": limits_table,
    "out_of_core_accuracy_amazon-video-games": out_of_core_table,
    "profile_step": profile_table,
    "recall_protocols": leave_one_out_table,
    "unseen_clicks:among_100": among_100_table,
    "recall_protocols:chance": chance_table,
    "recall_protocols:time": time_split_table,
    "recall_protocols:metrics": metrics_table,
    "rank_logs": speed_table,
    "recall_protocols:published": published_table,
    "replay": replay_table,
    "recall_search": recall_search_table,
    "recall_search:test": recall_test_table,
    "serving_service": service_table,
    "serving_framework": framework_table,
    "cold_items": cold_items_table,
    "scale_100m": scale_table,
    "start_up": start_up_table,
    "step_time": step_time_table,
    "time_to_hit": time_to_hit_table,
    "mipl_birdsong": bag_table,
    "mipl_digits": bag_table,
    "mipl_sival25": bag_table,
    **{f"noisy_labels_{name}": accuracy_table for name in ("digits", "letters", "lost")},
    **{f"noisy_labels_{name}:auroc": auroc_table for name in ("digits", "letters", "lost")},
    "reproduce_amazon": partial(reproduction_table, metrics=("HIT@10", "NDCG@10")),
    "reproduce_amazon:full": partial(reproduction_table, metrics=("full HIT@10", "full NDCG@10")),
    "reproduce_amazon:best": partial(best_baseline_table, metric="HIT@10"),
    "reproduce_mil": reproduction_table,
    "reproduce_pll": reproduction_table,
    "reproduce_pll:smoothing": smoothing_table,
    "ablation": ablation_table,
    "published_folds": folds_table,
    "ten_folds": ten_folds_table,
    "wider_grids": wider_grids_table,
    "reproduce_pll_final": partial(reproduction_table, is_ranked=False),
    "reproduce_pll_final:best": best_baseline_table,
    "reproduce_mil_final:best": best_baseline_table,
    "reproduce_pll_final:smoothing": smoothing_table,
    "reproduce_pll_final:differences": difference_table,
    "reproduce_mil_final:differences": difference_table,
    "reproduce_mil_final": partial(reproduction_table, is_ranked=False),
    "reproduce_amazon:budget": budget_table,
    "reproduce_pll:differences": difference_table,
    "reproduce_mil:differences": difference_table,
    "reproduce_mil:ablation-order": ablation_order_table,
    "click_chance": click_chance_table,
    "reproduce_pll-noise:differences": difference_table,
    "reproduce_pll_final:budget": budget_table,
    "reproduce_mil_final:budget": budget_table,
    "reproduce_pll:label-free": partial(reproduction_table, criterion="approximated_accuracy"),
    "reproduce_pll:ages": partial(
        reproduction_table, metrics=("accuracy", "MAE3", "MAE5"), datasets=("fg-net",)
    ),
    "reproduce_pll-noise": reproduction_table,
    "reproduce_recall-examples": partial(
        reproduction_table, metrics=("same kind@5", "HIT@10", "NDCG@10")
    ),
    "reproduce_sival-ablation": reproduction_table,
    "reproduce_sival-pairs": reproduction_table,
    "bag_accuracy": bag_accuracy_table,
    "later_sets": later_table,
    "last_sets": later_table,
    "last_sets_after": later_table,
    "keel_sets": later_table,
    "keel_sets_four_seeds": later_table,
    "last_sets_four_seeds": later_table,
    "keel_rest": later_table,
    "keel_rest_after": later_table,
    "small_sets": later_table,
    "text_sets": later_table,
    "gloss_sets": later_table,
    "manual_sets": later_table,
    "odd_logs": later_table,
    "mixed_sets": later_table,
    "mixed_sets_before": later_table,
    "unseen_bags": bag_tables,
    "unseen_bags:ranks": bag_ranks,
    "unseen_bags:summary": unseen_table,
    "unseen_bags:draws": draws_table,
    "unseen_candidates": candidates_table,
    "unseen_clicks": clicks_table,
}


def with_tables(text: str) -> str:
    """Return a page with every marked table made anew from its result file."""

    def fill(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        source = RESULTS / f"{name.partition(':')[0]}.json"
        if not source.is_file():
            return f"{start}*Not run yet.*\n{end}"
        result = json.loads(source.read_text(encoding="utf-8"))
        return f"{start}{TABLES[name](result)}\n{end}"

    return BLOCK.sub(fill, text)


def main() -> int:
    stale = 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        fresh = with_tables(text)
        if fresh == text:
            continue
        if "--check" in sys.argv:
            print(f"{page.name} is stale: run `python benchmarks/readme_tables.py`.")
            stale = 1
        else:
            page.write_text(fresh, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
