"""`groupnoise serve`: answer recall requests over HTTP, with a page to look at."""

from __future__ import annotations

import gc
import signal
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import Host, Port, Token, argument, describe_options, panel
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.io.datasets import ClickDataset
    from groupnoise.recall.http.settings import ServiceSettings

N_USERS = 2000
N_ITEMS = 400
STRAY_RATE = 0.2
SEED = 0
EXAMPLE_CLICKS = 5


def write_demo(folder: Path) -> tuple[Path, Path]:
    """Train both models on the shop and return their artifact folders."""
    from groupnoise.clicks.baselines.counting import CooccurrenceRecommender
    from groupnoise.clicks.estimator import MaxMatchingRecommender
    from groupnoise.clicks.evaluation.ranking import rank_targets
    from groupnoise.clicks.evaluation.splits import split_clicks
    from groupnoise.clicks.shop import make_shop
    from groupnoise.core.metrics import hit_at_k, ndcg_at_k

    shop = make_shop(N_USERS, N_ITEMS, stray_rate=STRAY_RATE, random_state=SEED)
    split = split_clicks(shop.histories, "leave_one_out")
    ours = MaxMatchingRecommender(
        dim=32, max_epochs=6, batch_size=400, candidates="full", random_state=SEED
    )
    models: dict[str, tuple[Any, dict[str, Any]]] = {
        "max-matching": (
            ours,
            {
                "name": "Max-Matching",
                "summary": "Finds the click that really leads on, and weighs the others down.",
                "example": _example(shop),
            },
        ),
        "co-occurrence": (
            CooccurrenceRecommender(),
            {
                "name": "Co-occurrence",
                "summary": "Counts which items share a history; every click counts alike.",
            },
        ),
    }
    facts = {
        "data": f"simulated shop, {N_USERS} visitors, {STRAY_RATE:.0%} stray clicks",
        "trained": date.today().isoformat(),
    }
    for name, (model, card) in models.items():
        model.fit(split.train.groups, item_ids=shop.item_ids)
        ranks = rank_targets(model, split.test.groups, shop.n_items, "full")
        metrics = {
            "HIT@10 on last clicks": round(hit_at_k(*ranks, k=10), 3),
            "NDCG@10 on last clicks": round(ndcg_at_k(*ranks, k=10), 3),
        }
        model.export(
            folder / name,
            titles=shop.titles,
            categories=shop.categories,
            card={**card, **facts, "metrics": metrics},
        )
    main, second = (folder / name for name in models)
    return main, second


def _example(shop: ClickDataset) -> list[Any]:
    """Return the ids of the first run of clicks with one stray click among one interest's."""
    import numpy as np

    categories = np.array(shop.categories)
    is_stray = np.asarray(shop.is_stray)
    for user in range(len(shop.histories)):
        begin, end = shop.histories.offsets[user], shop.histories.offsets[user + 1]
        for first in range(begin, end - EXAMPLE_CLICKS + 1):
            window = slice(first, first + EXAMPLE_CLICKS)
            clicks, stray = shop.histories.objects[window], is_stray[window]
            n_interests = len(set(categories[clicks[~stray]]))
            is_clear = stray.sum() == 1 and n_interests == 1 and not stray[-1]
            if is_clear and len(set(clicks.tolist())) == EXAMPLE_CLICKS:
                return list(shop.item_ids[clicks].tolist())
    return []


@describe_options(
    artifact=argument(
        "Folder written by `groupnoise export`; of a registry the promoted version, "
        "followed when another is promoted."
    ),
    compare="Second artifact to show beside the first.",
    canary="Registry version to serve to a fraction of users: VERSION=5%.",
    feedback="Folder for the impressions and clicks that clients report.",
    demo="Train on a simulated shop and serve that.",
    least_recall="Reject an artifact whose faiss index has less recall than this.",
    lists="Folder of named item lists: NAME.txt, one id per line.",
    processes="Number of processes; they share the artifact's memory.",
    **panel(
        "Limits",
        max_seconds="Maximum seconds per request.",
        max_concurrency="Maximum concurrent requests.",
        max_histories="Maximum histories per request.",
        max_history_length="Maximum clicks per history.",
        max_top="Maximum items per history.",
        max_explain="Maximum clicks times items in an explained answer.",
        max_body_bytes="Maximum size of a request body.",
        max_feedback_rows="Maximum feedback rows per second.",
        max_feedback_bytes="Maximum size of a feedback file before a new one is started.",
        max_feedback_files="Maximum number of feedback files; the oldest are deleted.",
    ),
)
def serve(
    artifact: Path | None = None,
    compare: Path | None = None,
    canary: str | None = None,
    feedback: Path | None = None,
    demo: bool = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    least_recall: float = 0.0,
    lists: Path | None = None,
    processes: int = 1,
    max_seconds: float = 10.0,
    max_concurrency: int = 1024,
    max_histories: int = 256,
    max_history_length: int = 200,
    max_top: int = 500,
    max_explain: int = 1_000_000,
    max_body_bytes: int = 1_000_000,
    max_feedback_rows: int = 5000,
    max_feedback_bytes: int = 64_000_000,
    max_feedback_files: int = 16,
) -> None:
    """Serve a recommender over HTTP; reload it with SIGHUP or POST /v1/model/reload."""
    from groupnoise.core.checks import require

    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package, extra="serve")
    if demo == (artifact is not None):
        raise ParameterError("give an artifact folder, or --demo for the simulated shop.")

    gc.disable()  # modules stay, and looking through them for garbage would delay the start
    from groupnoise.recall.http.server import serve as run
    from groupnoise.recall.http.settings import Limits, ServiceSettings

    gc.enable()

    limits = Limits(
        seconds=max_seconds,
        concurrency=max_concurrency,
        histories=max_histories,
        history_length=max_history_length,
        top=max_top,
        explain=max_explain,
        body_bytes=max_body_bytes,
        feedback_rows=max_feedback_rows,
        feedback_bytes=max_feedback_bytes,
        feedback_files=max_feedback_files,
    )

    def start(main: Path, second: Path | None) -> None:
        settings = ServiceSettings(
            artifact=main,
            compare=second,
            canary=canary,
            feedback=feedback,
            host=host,
            port=port,
            token=token,
            least_recall=least_recall,
            lists=lists,
            processes=processes,
            limits=limits,
        )
        run(settings, on_ready=lambda address: _echo_ready(address, settings))

    if artifact is not None:
        start(artifact, compare)
        return

    # Otherwise a signal during training would leave the temporary folder.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="groupnoise-demo-") as folder:
        typer.echo("training on the simulated shop ...")
        start(*write_demo(Path(folder)))


def _echo_ready(address: str, settings: ServiceSettings) -> None:
    from groupnoise.recall.artifact import open_artifact
    from groupnoise.recall.http.guide import curl, example_clicks

    clicks = example_clicks(open_artifact(settings.artifact).items)
    example = curl(address, clicks, needs_token=settings.token is not None)
    # In one call: a reader of the address may close the stream after it.
    typer.echo(f"listening on {address}\ntry: {example}\nroutes: {address}/docs")
