"""Loading local encoders of pictures and texts by name; nothing is downloaded."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import require
from groupnoise.core.words import error_text
from groupnoise.exceptions import DataError, MissingDataError, ParameterError

if TYPE_CHECKING:
    from torch import Tensor, nn

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
"""Channel statistics of the images that open_clip models expect."""
SENTENCES = "sentence-transformers"
FORMS = "timm:NAME, open_clip:NAME, sentence-transformers:FOLDER or FILE.py:NAME"


def load_encoder(name: str, weights: str | Path | None = None) -> Callable[[Any], Any]:
    """Return a function that encodes tiles of pictures, or sentences.

    Result: of pictures given (n, 3, size, size) from 0 to 1, of texts a list of them; one row of
    features each. `name`: a model of timm or open_clip with `weights`, the folder of a
    sentence-transformers model, or `FILE.py:NAME`, a torch module of the user's own or a function
    without arguments that makes one. `weights`: a file of safetensors, or tensors of torch.
    """
    kind, _, rest = name.partition(":")
    if kind == SENTENCES and rest:
        return sentence_encoder(rest)
    if kind in ("timm", "open_clip") and rest:
        if weights is None:
            raise ParameterError(
                f"encoder {name!r} needs its weights as a file (--weights), for nothing is "
                "downloaded here."
            )
        return (_timm_encoder if kind == "timm" else _open_clip_encoder)(rest, Path(weights))
    file, _, attribute = name.rpartition(":")
    if not file.endswith(".py") or not attribute:
        raise ParameterError(f"an encoder is one of {FORMS}; got {name!r}.")
    return _file_encoder(Path(file), attribute, None if weights is None else Path(weights))


def sentence_encoder(name: str) -> Callable[[Sequence[str]], FloatArray]:
    """Return a function from texts to unit vectors, by a sentence-transformers model."""
    sentences = require("sentence_transformers", extra="text")
    try:
        # Only safetensors: a weights file must not be able to run code.
        model = sentences.SentenceTransformer(
            name, device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        )
    except Exception:  # its libraries raise many types
        raise ParameterError(
            f"there is no sentence-transformers model {name!r} with safetensors weights on this "
            f"disk, and nothing is downloaded here; run `hf download {name}` first, or give the "
            "folder of a model."
        ) from None

    def encode(texts: Sequence[str]) -> FloatArray:
        vectors = model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float64)

    return encode


def _timm_encoder(name: str, weights: Path) -> Callable[[Any], Any]:
    timm = require("timm", extra="vision")
    try:
        model = timm.create_model(name, pretrained=False, num_classes=0)
    except RuntimeError as error:
        raise ParameterError(f"timm cannot make {name!r} ({_short(error)}).") from None
    _load_weights(model, weights)
    wanted = timm.data.resolve_model_data_config(model)
    return _prepared(model, int(wanted["input_size"][-1]), wanted["mean"], wanted["std"])


def _open_clip_encoder(name: str, weights: Path) -> Callable[[Any], Any]:
    open_clip = require("open_clip", extra="vision")
    try:
        model = open_clip.create_model(name, pretrained=None)
    except RuntimeError as error:
        raise ParameterError(f"open_clip cannot make {name!r} ({_short(error)}).") from None
    _load_weights(model, weights)
    side = model.visual.image_size
    side = side if isinstance(side, int) else side[0]
    return _prepared(model.encode_image, int(side), CLIP_MEAN, CLIP_STD, module=model)


def _prepared(
    model: Callable[[Tensor], Tensor],
    side: int,
    mean: Sequence[float],
    std: Sequence[float],
    module: nn.Module | None = None,
) -> Callable[[Any], Any]:
    """Return a model with the resizing and normalization that it was trained with."""
    import torch

    centre, spread = (torch.tensor(each).view(1, 3, 1, 1) for each in (mean, std))
    (module or model).eval()  # type: ignore[union-attr]

    def describe(tiles: Any) -> Any:
        with torch.no_grad():
            seen = torch.as_tensor(tiles, dtype=torch.float32)
            seen = torch.nn.functional.interpolate(
                seen, size=(side, side), mode="bilinear", antialias=True, align_corners=False
            )
            return model((seen - centre) / spread).float().numpy()

    return describe


def _file_encoder(file: Path, attribute: str, weights: Path | None) -> Callable[[Any], Any]:
    """Return the encoder defined in a Python file of the user, which is executed."""
    from torch import nn

    if not file.is_file():
        raise MissingDataError(f"there is no file {file} to take the encoder from; check the path.")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found = getattr(module, attribute)
        if not isinstance(found, nn.Module) and _needs_no_arguments(found):
            found = found()
    except Exception as error:  # whatever the user's own code raises
        raise ParameterError(f"{file} gives no encoder {attribute!r} ({error}).") from error
    if not callable(found):
        raise ParameterError(f"{attribute!r} of {file} is no torch module and cannot be called.")
    if weights is not None:
        if not isinstance(found, nn.Module):
            raise ParameterError(f"{attribute!r} of {file} is no torch module to take weights.")
        _load_weights(found, weights)
    return found


def _short(error: Exception) -> str:
    """Return the first sentence of an error message."""
    return error_text(error).split(". ", 1)[0]


def _needs_no_arguments(found: Any) -> bool:
    if not callable(found):
        return False
    parameters = inspect.signature(found).parameters.values()
    return all(
        each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in parameters
    )


def _load_weights(model: nn.Module, path: Path) -> None:
    """Load weights; pickled objects other than tensors are never unpickled."""
    import pickle

    import torch

    state: Mapping[str, Any]
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
            state = state.get("state_dict", state)
        missing = model.load_state_dict(dict(state), strict=False).missing_keys
    except FileNotFoundError:
        raise MissingDataError(f"there is no file of weights {path}; check the path.") from None
    except pickle.UnpicklingError:
        raise DataError(
            f"{path} holds pickled objects, which can run code and are never unpickled; save the "
            "weights as safetensors."
        ) from None
    except Exception as error:  # safetensors and torch raise many types
        raise DataError(
            f"{path} does not hold the weights of this model ({_short(error)})."
        ) from None
    if missing:
        raise DataError(
            f"{path} lacks {len(missing)} weights of this model, such as {missing[0]!r}; give the "
            "file that belongs to it."
        )
