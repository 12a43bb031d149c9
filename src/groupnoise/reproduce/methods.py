"""The registry of methods, and the choice of one by held-out comparison."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import groupnoise
from groupnoise.core.checks import did_you_mean
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError
from groupnoise.io.setting import Setting
from groupnoise.reproduce.provenance import ROOMS

if TYPE_CHECKING:
    from groupnoise.reproduce.comparison import ComparisonOfMethods

ABLATIONS = {
    "pairwise": {"selection": "all", "weighting_strength": 0.0},
    "matching": {"selection": "all", "weighting_strength": 1.0},
    "maximizing": {"selection": "max", "weighting_strength": 0.0},
}
"""The paper's ablations of max-matching; `groupnoise.core.objective` has them too, with torch."""
COMPARED_SCALING = "standard"
"""Scaling of baselines in comparisons; their default is none."""
OURS = "max-matching"
BASELINES = {
    "mil": ("milr", "mi-net", "attention-mil", "instance-lr"),
    "pll": ("soft-lr", "pl-knn", "pl-svm", "clpl", "sure", "cc", "proden", "lws"),
    "rs": ("popularity", "cooccurrence", "item-cf", "item-knn", "ease", "als"),
}
"""Baselines considered by `choose_method`: those that cost no more than ours."""
MAX_ROWS = {"sure": 5_000}
"""Largest data of a method: SURE needs a kernel between all rows in memory."""
N_SPLITS = 3
ERRORS = 1.0
"""Standard errors of the paired difference by which a baseline must lead to be chosen."""
ROOT = Path(groupnoise.__path__[0]).parent


@dataclass(frozen=True)
class MethodEntry:
    """A method by name."""

    name: str
    setting: str
    home: str
    source: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


_TABLE: dict[str, tuple[tuple[Any, ...], ...]] = {
    "mil": (
        ("max-matching", "MaxMatchingMILClassifier", "Wang et al., AAAI 2021"),
        (
            "max-matching-mipl",
            "MaxMatchingMIPLClassifier",
            "this package: several labels of a bag are candidates for one",
        ),
        ("instance-lr", "InstanceLRClassifier", "logistic regression on bag labels"),
        ("milr", "MILRClassifier", "Ray & Craven, ICML 2005"),
        ("mi-net", "MiNetClassifier", "Wang et al., PR 2018"),
        ("gicf", "GICFClassifier", "Kotzias et al., KDD 2015"),
        ("imil", "IMILClassifier", "Peng & Zhang, 2019 (a reconstruction)"),
        ("attention-mil", "AttentionMILClassifier", "Ilse et al., ICML 2018"),
    ),
    "pll": (
        ("max-matching", "MaxMatchingPartialLabelClassifier", "Wang et al., AAAI 2021"),
        ("noisy-labels", "NoisyLabelClassifier", "this package: one label per row, some wrong"),
        ("pl-knn", "PLKNNClassifier", "Huellermeier & Beringer, IDA 2006"),
        ("pl-svm", "PLSVMClassifier", "Nguyen & Caruana, KDD 2008"),
        ("clpl", "CLPLClassifier", "Cour et al., JMLR 2011"),
        ("paloc", "PALOCClassifier", "Wu & Zhang, IJCAI 2018"),
        ("cc", "CCClassifier", "Feng et al., NeurIPS 2020"),
        ("proden", "PRODENClassifier", "Lv et al., ICML 2020"),
        ("lws", "LWSClassifier", "Wen et al., ICML 2021"),
        ("sure", "SUREClassifier", "Feng & An, AAAI 2019"),
        ("soft-lr", "SoftLabelClassifier", "logistic regression on even soft labels"),
    ),
    "rs": (
        ("max-matching", "MaxMatchingRecommender", "Wang et al., AAAI 2021"),
        ("popularity", "PopularityRecommender", "counts"),
        ("cooccurrence", "CooccurrenceRecommender", "counts"),
        ("item-cf", "ItemCFRecommender", "Sarwar et al., WWW 2001"),
        (
            "item-knn",
            "ItemCFRecommender",
            "the same, older clicks counting less as held-out clicks say",
            {"decay": "auto"},
        ),
        ("ease", "EASERecommender", "Steck, WWW 2019"),
        (
            "ease-blocks",
            "BlockEASERecommender",
            "Steck, NeurIPS 2019: EASE block by block, for large catalogues",
        ),
        ("als", "ALSRecommender", "Hu et al., ICDM 2008"),
        ("caser", "CaserRecommender", "Tang & Wang, WSDM 2018"),
        ("attrec", "AttRecRecommender", "Zhang et al., AAAI 2019"),
        ("neural-cf", "NeuralCFRecommender", "He et al., WWW 2017"),
        ("sasrec", "SASRecRecommender", "Kang & McAuley, ICDM 2018"),
        (
            "sasrec-ce",
            "SASRecRecommender",
            "Klenitskiy & Vasilev, RecSys 2023: cross-entropy over the catalogue",
            {"n_negatives": None},
        ),
        ("lrurec", "LRURecRecommender", "Yue et al., WSDM 2024"),
        ("comirec", "ComiRecRecommender", "Cen et al., KDD 2020"),
    ),
}
"""The methods of each setting: name, class, source, and fixed parameters."""


def _home(setting: str, kind: str) -> str:
    """Return module and class of a method; ours are exported by the package itself."""
    if kind.startswith(("MaxMatching", "NoisyLabel")):
        return f"groupnoise:{kind}"
    return f"groupnoise.{ROOMS[setting]}.baselines:{kind}"


METHODS = tuple(
    MethodEntry(name, setting, _home(setting, kind), *more)
    for setting, methods in _TABLE.items()
    for name, kind, *more in methods
)

METHODS += tuple(
    MethodEntry(name, entry.setting, entry.home, "Wang et al., AAAI 2021: an ablation", fixed)
    for entry in METHODS
    if entry.name == "max-matching"
    for name, fixed in ABLATIONS.items()
)


def find_method(name: str, setting: str) -> MethodEntry:
    """Return a method of a setting by name; an unknown one is refused with the list."""
    fitting = {method.name: method for method in METHODS if method.setting == setting}
    other = next((method.setting for method in METHODS if method.name == name), None)
    if name not in fitting and other is not None:
        raise ParameterError(
            f"{name} is a method for {other} data, not for {setting}: say --setting {other} if the "
            f"data are that, or take one of {', '.join(fitting)}."
        )
    if name not in fitting:
        raise ParameterError(
            f"a method for {setting} data is one of {', '.join(fitting)}; got {name!r}"
            f"{did_you_mean(name, fitting)}."
        )
    return fitting[name]


def import_class(method: MethodEntry) -> Any:
    """Return the estimator class of a method."""
    module, _, name = method.home.partition(":")
    return getattr(importlib.import_module(module), name)


def parameters_of(method: MethodEntry) -> dict[str, Any]:
    """Return the parameters of a method and their defaults, without importing its class."""
    module, _, name = method.home.partition(":")
    return {**declared_parameters(module, name), **method.fixed}


def parameters_of_class(name: str) -> dict[str, Any]:
    """Return the parameters and defaults of an estimator by its name; none where it is unknown."""
    homes = (each.home.partition(":") for each in METHODS)
    return next((declared_parameters(home, each) for home, _, each in homes if each == name), {})


def compared_parameters(method: MethodEntry) -> dict[str, Any]:
    """Return the parameters of a method in comparisons: the fixed ones, and scaled features."""
    scaled = {"scaling": COMPARED_SCALING} if parameters_of(method).get("scaling") == "none" else {}
    return {**scaled, **method.fixed}


@dataclass(frozen=True)
class MethodChoice:
    """The chosen method, the reason, and the comparison."""

    method: MethodEntry
    sentence: str
    comparison: ComparisonOfMethods


def choose_method(
    setting: Setting[Any],
    training: Any,
    *,
    budget: float | None = 600.0,
    seed: int = 0,
    on_fit: Callable[[str, int, float | None], None] | None = None,
) -> MethodChoice:
    """Choose between ours and the baselines of a setting by held-out groups."""
    from groupnoise.reproduce.compare import compare_methods

    n_groups = setting.n_groups(training)
    names = [name for name in BASELINES[setting.name] if n_groups <= MAX_ROWS.get(name, n_groups)]
    entries = [find_method(name, setting.name) for name in (OURS, *names)]
    found = compare_methods(
        setting, training, entries, n_splits=N_SPLITS, budget=budget, seed=seed, on_fit=on_fit
    )
    taken = preferred_method(found)
    sentence = _sentence(found, taken) + found.chance_warning(taken)
    return MethodChoice(find_method(taken, setting.name), sentence, found)


def preferred_method(found: ComparisonOfMethods) -> str:
    """Return the name of the leader if it is significantly ahead of ours, otherwise ours."""
    ours = next((each for each in found.methods if each.name == OURS), found.leader)
    if ours.failed is not None or found.leader is ours:
        return found.leader.name
    ahead = found.gaps(found.leader, ours)
    error = float(ahead.std(ddof=1)) / np.sqrt(len(ahead)) if len(ahead) > 1 else np.inf
    return found.leader.name if ahead.mean() > ERRORS * error else OURS


def _sentence(found: ComparisonOfMethods, taken: str) -> str:
    basis = "by true labels of the training part" if found.needs_truth else "without true labels"
    splits = counted(found.n_splits, "splits")
    means = {each.name: found.interval(each).mean for each in found.ranked}
    others = [name for name in means if name != taken]
    sentence = f"{taken} was taken: {found.metric} {means[taken]:.3f} on {splits}, {basis}"
    if taken == OURS and found.leader.name != OURS:
        best = found.leader.name
        return f"{sentence}; {best} with {means[best]:.3f} is not ahead beyond chance."
    if OURS in others:
        return f"{sentence}; this package's {OURS} has {means[OURS]:.3f}."
    if not others:
        return f"{sentence}; no baseline was run."
    return f"{sentence}; the best baseline, {others[0]}, has {means[others[0]]:.3f}."


def declared_parameters(module: str, name: str) -> dict[str, Any]:
    """Parse the parameters of a dataclass, or of an `__init__`, and their defaults."""
    found = _defined(module, name)
    return {} if found is None else {**_of_class(*found)}


@functools.cache
def _of_class(module: str, node: ast.ClassDef) -> dict[str, Any]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            only = dict(zip(each.args.kwonlyargs, each.args.kw_defaults, strict=True))
            return {argument.arg: _value(module, default) for argument, default in only.items()}
    parameters: dict[str, Any] = {}
    for base in reversed(node.bases):
        found = _defined(module, ast.unparse(base).partition("[")[0])
        parameters |= {} if found is None else _of_class(*found)
    if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        for each in node.body:
            if not isinstance(each, ast.AnnAssign) or "ClassVar" in ast.unparse(each.annotation):
                continue
            name = ast.unparse(each.target)
            if isinstance(each.value, ast.Call):  # field(init=False): learned, or fixed
                parameters.pop(name, None)
            else:
                parameters[name] = _value(module, each.value)
    return parameters


def _value(module: str, node: ast.expr | None) -> Any:
    """Return a default: a literal, or a constant of the module."""
    if node is None:
        return None
    if isinstance(node, ast.Name):
        for each in _tree(module).body:
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == node.id:
                return _value(module, each.value)
            if isinstance(each, ast.ImportFrom) and node.id in {a.name for a in each.names}:
                return _value(str(each.module), node)
    return ast.literal_eval(node)


@functools.cache
def _defined(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """Return the definition of a class and its module; None for classes of other packages."""
    if not module.startswith("groupnoise"):
        return None
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _defined(str(node.module), alias.name)
    return None


@functools.cache
def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
