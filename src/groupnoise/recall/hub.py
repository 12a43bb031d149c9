"""Artifacts in repositories of a Hugging Face hub, with a model card, checked on arrival."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groupnoise import __version__
from groupnoise.core.checks import require
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, OutputError, ServiceError
from groupnoise.io.files import replace_folder
from groupnoise.io.folders.array_folder import read_manifest
from groupnoise.recall.artifact import open_artifact
from groupnoise.recall.model import RecallModel
from groupnoise.recall.registry import served_folder

CARD = "README.md"
KEPT = ("manifest.json", "*.npy", CARD)
"""Files that are uploaded and downloaded; others in a repository are ignored."""
HTTP_LIBRARIES = ("httpx", "httpcore", "requests")
"""HTTP libraries of huggingface_hub, whose errors it passes through."""


def push(artifact: Path | str, repository: str, *, is_private: bool = True) -> str:
    """Send an artifact to a repository of a Hugging Face hub; return the address of the commit.

    Result: where the commit can be seen. `artifact`: an artifact, or a registry, whose promoted
    version is sent. `repository`: such as "shop/recall"; made if needed. `is_private`: whether a
    repository that is made is private. Raises ServiceError if the hub refuses or cannot be reached.
    """
    hub = require("huggingface_hub", extra="hub")
    folder = served_folder(artifact)
    model = open_artifact(folder, memory_map=False)
    with tempfile.TemporaryDirectory(prefix="groupnoise-") as name, _hub_errors(repository):
        place = Path(name)
        for path in [folder / "manifest.json", *folder.glob("*.npy")]:
            (place / path.name).symlink_to(path.resolve())
        (place / CARD).write_text(model_card(model, repository), encoding="utf-8")
        api = hub.HfApi()
        api.create_repo(repository, private=is_private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=name,
            commit_message=f"groupnoise artifact {model.version}",
            delete_patterns=list(KEPT),
        )
    return str(commit.commit_url)


def pull(repository: str, folder: Path | str, *, revision: str | None = None) -> str:
    """Fetch an artifact from a repository of a Hugging Face hub; return its version.

    Every byte is checked against the manifest before the folder takes its place; nothing of a
    repository is ever executed or unpickled.

    `repository`: such as "shop/recall". `folder`: the artifact folder to write; an artifact already
    there is replaced. `revision`: a branch, a tag or a commit; by default the main branch. Raises
    ModelFileError if the repository holds no sound artifact. Raises ServiceError if the hub refuses
    or cannot be reached.
    """
    hub = require("huggingface_hub", extra="hub")
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        _check_artifact(folder)
    with replace_folder(folder) as place:
        with _hub_errors(repository):
            hub.snapshot_download(
                repository, revision=revision, local_dir=place, allow_patterns=list(KEPT)
            )
        shutil.rmtree(place / ".cache", ignore_errors=True)
        return open_artifact(place, memory_map=False).version


def model_card(model: RecallModel, repository: str) -> str:
    """Return the model card for a hub, in Markdown with a YAML header."""
    card = model.card
    details = {name: value for name, value in card.items() if name not in ("name", "metrics")}
    metrics = card.get("metrics")
    lines = [
        "---",
        "library_name: groupnoise",
        "pipeline_tag: other",
        "tags: [recommendation, recall, groupnoise]",
        "---",
        "",
        f"# {_plain(card.get('name', repository))}",
        "",
        f"A recall model of {counted(len(model.items), 'items')}, version `{model.version}`, "
        f"written by groupnoise {__version__}. It answers a history by {model.clicks_used()}.",
        "",
    ]
    if isinstance(metrics, dict) and metrics:
        lines += ["| metric | value |", "|---|---|"]
        lines += [f"| {_plain(name)} | {_plain(value)} |" for name, value in metrics.items()]
        lines += [""]
    lines += [f"- {_plain(name)}: {_plain(value)}" for name, value in details.items()]
    lines += [
        "",
        "```bash",
        "pip install 'groupnoise[serve,hub]'",
        f"groupnoise pull {repository} artifact",
        "groupnoise serve artifact",
        "```",
        "",
        "The files are plain arrays and JSON; loading them runs no code. Ids of the items are in "
        "the files: whoever can read the repository can read them.",
        "",
    ]
    return "\n".join(lines)


def _plain(value: Any) -> str:
    """Return a value as one line of Markdown text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _check_artifact(folder: Path) -> None:
    try:
        read_manifest(folder)
    except Exception:
        raise OutputError(f"{folder} holds something else already; give a new folder.") from None


@contextmanager
def _hub_errors(repository: str) -> Iterator[None]:
    """Turn errors of the hub or of the connection into one sentence."""
    errors = require("huggingface_hub.errors", extra="hub")
    try:
        yield
    except errors.HFValidationError as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{repository!r} names no repository ({reason}).") from None
    except Exception as error:
        known = (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError)
        if not isinstance(error, known) and not type(error).__module__.startswith(HTTP_LIBRARIES):
            raise
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise ServiceError(
            f"the hub did not give or take {repository} ({reason}); look at its name, at HF_TOKEN "
            "and at HF_ENDPOINT.",
            status=status,
        ) from None
