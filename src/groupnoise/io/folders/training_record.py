"""What a model remembers of the data it was trained on."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.exceptions import ModelFileError
from groupnoise.io.feature_ranges import FeatureRanges
from groupnoise.io.files import MANIFEST, write_json
from groupnoise.io.folders.model_files import read_model_manifest

if TYPE_CHECKING:
    from groupnoise.io.setting import Setting

Record = TypeVar("Record")
KEY = "training_data"
CALIBRATED = "calibration_data"
MAX_FINGERPRINTS = 20_000
"""Fingerprints of groups in a record at most; of more groups every second, third, ... is kept."""

TRAINING_PARTS = ("step", "data", "contents", "result", "ended")
MAX_EARLIER = 400
"""Earlier trainings in a record at most."""
MAX_HELD_LOGS = 20
"""Logs of which a model remembers what was held out."""


class HeldOutOfLog(NamedTuple):
    """The held-out part of a log: `rows` of its groups, by a `protocol` or as last clicks."""

    rows: list[int]
    protocol: str = ""


@dataclass(frozen=True)
class TrainingRecord:
    """The data of a training, and what of it was held out.

    `name`: what the data is called.
    `setting`: "mil", "pll" or "rs".
    `fingerprint`: the checksum that `Setting.fingerprint` gives.
    `n_groups`: how many groups there were, with those held out.
    `held_out`: the groups that were held out; of click histories only their last click.
    `options`: columns and the form of the file, as its reader takes them.
    `trained`: fingerprints of groups that were trained on, of 8 bytes each, in base 64.
    `names`: those of what their source calls these groups and the patients they come from; see
        `Setting.identity_fingerprints`.
    `protocol`: the protocol that held clicks out; empty where only last clicks of some were.
    `earlier`: fingerprints of the data that earlier trainings of this model saw, the first of them
        first.
    `added`: fingerprints of the logs that were added to an earlier one, each as it was given.
    `trainings`: what each training was given and when it ended, the first fit first; see
        `training_entry`.
    `held_before`: of logs that a model went on from, or with, what was held out, as `held_out` and
        `protocol`, by their fingerprints.
    `shares`: how frequent labels were in the part that was trained on; see `Setting.shares`.
    `newest`: when the last click of the log happened; None where it has no times.
    `ranges`: how large features were; see `FeatureRanges`.
    """

    name: str
    setting: str
    fingerprint: str
    n_groups: int
    held_out: list[int] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    trained: str = ""
    names: dict[str, str] = field(default_factory=dict)
    protocol: str = ""
    earlier: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    trainings: list[dict[str, str]] = field(default_factory=list)
    held_before: dict[str, HeldOutOfLog] = field(default_factory=dict)
    shares: dict[str, Any] = field(default_factory=dict)
    newest: float | None = None
    ranges: str = ""

    @classmethod
    def of(
        cls,
        setting: Setting[Any],
        dataset: Any,
        held_out: IntArray,
        options: dict[str, Any],
        protocol: str = "",
    ) -> TrainingRecord:
        """Return the record of a training on all of a data set but what was held out.

        With the fingerprints of up to `MAX_FINGERPRINTS` groups that were trained on. `setting`:
        what the data set belongs to. `held_out`: the groups that were held out. `options`: how its
        file was read. `protocol`: the protocol that held clicks out, if one did.
        """
        rows = np.delete(np.arange(setting.n_groups(dataset)), held_out)
        rows = rows[:: max(1, -(-len(rows) // MAX_FINGERPRINTS))]
        times = getattr(dataset, "timestamps", None)
        features = setting.features(dataset)
        return cls(
            name=dataset.name,
            setting=setting.name,
            fingerprint=setting.fingerprint(dataset),
            n_groups=setting.n_groups(dataset),
            held_out=held_out.tolist(),
            options=options,
            trained=_packed(setting.group_fingerprints(dataset, rows)),
            names={
                k: _packed(each[rows]) for k, each in setting.identity_fingerprints(dataset).items()
            },
            protocol=protocol,
            shares=setting.shares(dataset, held_out),
            newest=None if times is None or not len(times) else float(np.max(times)),
            ranges="" if features is None else FeatureRanges.of(features).packed(),
        )

    def after(self, before: TrainingRecord | None) -> TrainingRecord:
        """Return this record, continued from that of an earlier training."""
        if before is None:
            return self
        held = {before.fingerprint: HeldOutOfLog(before.held_out, before.protocol)}
        held = {**before.held_before, **(held if before.held_out else {}), **self.held_before}
        return replace(
            self,
            held_before=dict(list(held.items())[-MAX_HELD_LOGS:]),
            trained=_joined(before.trained, self.trained),
            names={
                part: _joined(before.names.get(part, ""), self.names.get(part, ""))
                for part in {**before.names, **self.names}
            },
            newest=max((t for t in (before.newest, self.newest) if t is not None), default=None),
            earlier=[*before.earlier, before.fingerprint][-MAX_EARLIER:],
            added=[*before.added, *self.added][-MAX_EARLIER:],
            trainings=[
                *before.trainings[:1],
                *before.trainings[1:][-MAX_EARLIER:],
                *self.trainings,
            ],
        )

    def of_log(self, fingerprint: str) -> TrainingRecord | None:
        """Return the record for one of the logs trained on; None for other data."""
        if fingerprint in self.held_before:
            held = self.held_before[fingerprint]
            return replace(
                self, fingerprint=fingerprint, held_out=held.rows, protocol=held.protocol
            )
        if fingerprint == self.fingerprint:
            return self
        # Added logs were trained on completely.
        is_added = fingerprint in self.added
        return (
            replace(self, fingerprint=fingerprint, held_out=[], protocol="") if is_added else None
        )

    def has_learned(self, fingerprint: str) -> bool:
        """Return whether the model was trained on exactly these data."""
        return fingerprint in (self.fingerprint, *self.earlier, *self.added)

    def n_trained_among(self, setting: Setting[Any], dataset: Any) -> int:
        """Return how many groups of other data were in the training data."""
        n_trained = self.n_groups - len(self.held_out)
        return _estimate_overlap(setting, dataset, self.trained, n_trained)

    def named_as_trained(self, setting: Setting[Any], dataset: Any) -> dict[str, BoolArray]:
        """Return which groups of other data share a name, or a patient, with the training data.

        Arrays of shape (n_groups,) by kind of name; the values of the groups may differ.
        """
        return {
            part: np.isin(each, unpacked(self.names[part]))
            for part, each in setting.identity_fingerprints(dataset).items()
            if part in self.names
        }

    @property
    def rows(self) -> IntArray:
        """The groups that were held out, as an array."""
        return np.array(self.held_out, dtype=np.int64)


def training_entry(step: str, source: str, contents: str, result: str) -> dict[str, str]:
    """Return the entry that `info` shows about a training that ends now."""
    ended = datetime.now(timezone.utc).isoformat(" ", "minutes").replace("+00:00", " UTC")
    return dict(zip(TRAINING_PARTS, (step, source, contents, result, ended), strict=True))


def write_training_record(folder: Path | str, record: TrainingRecord) -> None:
    """Add a record to the manifest of a model that was just saved."""
    _add_to_manifest(folder, {KEY: asdict(record)})


def _add_to_manifest(folder: Path | str, more: Mapping[str, Any]) -> None:
    write_json(Path(folder) / MANIFEST, {**read_model_manifest(folder), **more})


class CalibrationRecord(NamedTuple):
    """The groups that a model was calibrated on.

    `n_groups`: their number. `groups`: their packed fingerprints.
    """

    n_groups: int
    groups: str

    @classmethod
    def of(
        cls, setting: Setting[Any], dataset: Any, before: CalibrationRecord | None
    ) -> CalibrationRecord:
        """Return the record of a calibration on all groups of a data set.

        `before`: the record of earlier calibrations, which are included.
        """
        found = np.unique(setting.group_fingerprints(dataset, np.arange(setting.n_groups(dataset))))
        n_groups = len(found)
        if before is not None:
            known = unpacked(before.groups)
            n_groups = before.n_groups + int((~np.isin(found, known)).sum())
            found = np.union1d(found, known)
        return cls(n_groups, _packed(found))

    def n_among(self, setting: Setting[Any], dataset: Any) -> int:
        """Return how many groups of a data set the model was calibrated on."""
        return _estimate_overlap(setting, dataset, self.groups, self.n_groups)


def write_calibration_record(folder: Path | str, record: CalibrationRecord) -> None:
    """Add a calibration record to the manifest of a saved model."""
    _add_to_manifest(folder, {CALIBRATED: record._asdict()})


def read_calibration_record(folder: Path | str) -> CalibrationRecord | None:
    """Return the calibration record of a model, if any."""

    def checked(found: Mapping[str, Any]) -> CalibrationRecord:
        unpacked(found["groups"])
        return CalibrationRecord(int(found["n_groups"]), found["groups"])

    unreadable = "calibrated by; restore it or calibrate it again."
    return _read_part(folder, CALIBRATED, checked, unreadable)


def _read_part(
    folder: Path | str, name: str, read: Callable[[Any], Record], unreadable: str
) -> Record | None:
    """Return a parsed part of a manifest, None if absent; `unreadable`: ends the error message."""
    found = read_model_manifest(folder).get(name)
    try:
        return None if found is None else read(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ModelFileError(
            f"{Path(folder) / MANIFEST} does not say in a readable way what the model was "
            f"{unreadable}"
        ) from None


def _packed(fingerprints: NDArray[np.uint64]) -> str:
    """Return fingerprints as text, thinned out if there are too many."""
    kept = fingerprints[:: max(1, -(-len(fingerprints) // MAX_FINGERPRINTS))]
    return base64.b64encode(kept.astype("<u8").tobytes()).decode("ascii")


def _joined(first: str, second: str) -> str:
    return _packed(np.union1d(unpacked(first), unpacked(second)))


def unpacked(text: str) -> NDArray[np.uint64]:
    """Return fingerprints as a record packs them."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)


def _estimate_overlap(setting: Setting[Any], dataset: Any, packed: str, n_groups: int) -> int:
    """Estimate how many groups of a data set are among `n_groups`, given a sample of these."""
    remembered = unpacked(packed)
    if not len(remembered):
        return 0
    is_found = setting.matching_groups(dataset, remembered)
    share = min(1.0, len(remembered) / max(1, n_groups))
    return min(len(is_found), round(int(is_found.sum()) / share))


def read_training_record(folder: Path | str) -> TrainingRecord | None:
    """Return the training record of a model; None if it was saved from Python."""
    return _read_part(folder, KEY, _checked, "trained on; restore or refit it.")


def training_summary(folder: Path | str) -> dict[str, Any]:
    """Return the provenance of a model: data, parameters, seed and decisions."""
    manifest = read_model_manifest(folder)
    parameters = manifest.get("parameters")
    summary: dict[str, Any] = {
        "estimator": manifest.get("kind"),
        "groupnoise_version": manifest.get("groupnoise_version"),
        "parameters": parameters,
        "seed": parameters.get("random_state") if isinstance(parameters, dict) else None,
        "decisions": manifest.get("decisions"),
    }
    record = read_training_record(folder)
    if record is not None:
        summary["data"] = {
            "name": record.name,
            "fingerprint": record.fingerprint,
            "n_groups": record.n_groups,
            "n_held_out": len(record.held_out),
            "protocol": record.protocol or None,
            "columns": {k: v for k, v in record.options.items() if isinstance(v, (str, float))},
        }
    return {name: value for name, value in summary.items() if value is not None}


def _checked(found: Mapping[str, Any]) -> TrainingRecord:
    """Return a record after checking the types of its parts."""
    record = TrainingRecord(**found)
    listed = (record.held_out, record.earlier, record.added, record.trainings)
    if not all(isinstance(each, list) for each in listed):
        raise TypeError
    said = [each[part] for each in record.trainings for part in TRAINING_PARTS]
    texts = [record.name, record.setting, record.fingerprint, record.trained, record.protocol]
    texts += record.names.values()
    if not all(isinstance(each, str) for each in (*texts, *record.earlier, *record.added, *said)):
        raise TypeError
    if not isinstance(record.options, dict) or not isinstance(record.n_groups, int):
        raise TypeError
    if not all(isinstance(row, int) and 0 <= row < record.n_groups for row in record.held_out):
        raise ValueError
    list(map(unpacked, (record.trained, *record.names.values())))
    FeatureRanges.unpacked(record.ranges)
    held = {
        log: HeldOutOfLog(list(map(int, rows)), str(protocol))
        for log, (rows, protocol) in record.held_before.items()
    }
    shares = {
        level: {
            "classes": {name: float(share) for name, share in each["classes"].items()},
            "none": float(each["none"]),
        }
        for level, each in record.shares.items()
    }
    newest = None if record.newest is None else float(record.newest)
    return replace(record, held_before=held, shares=shares, newest=newest)
