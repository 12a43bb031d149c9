"""Who may import whom, read from the syntax tree, and what a fresh interpreter really loads."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import groupnoise
from processes import modules_after, run_python

PACKAGE = Path(groupnoise.__file__).parent
FOLDERS = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}

ROOMS = {"bags", "candidates", "clicks"}
MAY_IMPORT = {
    "core": set(),
    "io": {"core"},
    "pages": {"core"},
    "decisions": {"core", "io"},
    "training": {"core", "io", "decisions"},
    "bags": {"core", "io", "pages", "decisions", "training", "audit", "candidates"},
    "candidates": {"core", "io", "decisions", "training", "audit"},
    "clicks": {"core", "io", "decisions", "training", "audit", "recall"},
    "recall": {"core", "io", "clicks"},
    "audit": {"core", "io", "pages", *ROOMS},
    "votes": {"core", "io", "training", "candidates"},
    "review": {"core", "io", "recall", "votes", "audit", "bags"},
    "reproduce": FOLDERS - {"cli"},
    "cli": FOLDERS,
}
"""Folders each folder may import besides itself; every folder may import the top level."""

TOP_LEVEL_MAY_IMPORT = {
    "__init__": FOLDERS - {"cli"},  # public names, loaded lazily
    "__main__": {"cli"},
}
SWITCHBOARDS = {"io/folders/model_files.py": ROOMS, "io/named.py": ROOMS, "io/setting.py": ROOMS}
"""Files that know all settings: whichever model or data set a name or a folder turns out to be."""

WITHOUT_TORCH = {"io", "pages", "recall", "audit", "votes", "review", "reproduce", "cli"}
"""Folders that import torch, if at all, inside a function."""


@dataclass(frozen=True)
class Import:
    """One import of a module; `at_load` unless it stands in a function or is for types alone."""

    file: str
    module: str
    at_load: bool

    @property
    def importer(self) -> str:
        """The folder, or the name of the top-level module, that imports."""
        return Path(self.file).parts[0].removesuffix(".py")

    @property
    def imported(self) -> str:
        """The folder or top-level module of the package that is imported."""
        return [*self.module.split("."), "__init__"][1]

    @property
    def is_ours(self) -> bool:
        return self.module.split(".")[0] == "groupnoise"


def modules_of(node: ast.AST) -> list[str]:
    """Modules a node names: by an import, or as text for lazy loading."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import of {node.module} in line {node.lineno}"
        return [
            f"{node.module}.{alias.name}" if is_module(node.module, alias.name) else node.module
            for alias in node.names
        ]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value] if re.fullmatch(r"groupnoise(\.\w+)+", node.value) else []
    return []


def is_module(package: str, name: str) -> bool:
    path = PACKAGE.parent.joinpath(*package.split("."), name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def is_for_types_alone(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def walk(node: ast.AST, file: str, at_load: bool = True) -> list[Import]:
    found = [Import(file, module, at_load) for module in modules_of(node)]
    later = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Constant))
    inside = at_load and not later and not is_for_types_alone(node)
    for child in ast.iter_child_nodes(node):
        found += walk(child, file, inside)
    return found


@functools.cache
def all_imports() -> list[Import]:
    return [
        each
        for path in sorted(PACKAGE.rglob("*.py"))
        for each in walk(
            ast.parse(path.read_text(encoding="utf-8")), path.relative_to(PACKAGE).as_posix()
        )
    ]


def our_imports() -> list[Import]:
    return [each for each in all_imports() if each.is_ours]


def listed(breaches: list[Import]) -> set[tuple[str, str]]:
    return {(each.file, each.module) for each in breaches}


def crosses_folders(each: Import) -> bool:
    return each.imported in FOLDERS and each.imported != each.importer


def test_every_folder_has_a_line_in_the_table():
    assert MAY_IMPORT.keys() >= FOLDERS


def test_folders_import_only_what_the_table_allows():
    allowed = MAY_IMPORT | TOP_LEVEL_MAY_IMPORT
    assert not listed(
        [
            each
            for each in our_imports()
            if crosses_folders(each)
            and each.imported
            not in allowed.get(each.importer, set()) | SWITCHBOARDS.get(each.file, set())
        ]
    )


def test_nothing_but_the_entry_point_imports_the_command_line():
    importers = {each.importer for each in our_imports() if each.imported == "cli"}
    assert importers <= {"cli", "__main__"}


def test_torch_is_imported_at_load_only_where_models_are_trained():
    assert not listed(
        [
            each
            for each in all_imports()
            if each.module.split(".")[0] == "torch"
            and each.at_load
            and each.importer in WITHOUT_TORCH
        ]
    )


def test_recall_never_imports_torch_not_even_in_a_function():
    assert not [
        each
        for each in all_imports()
        if each.importer == "recall" and each.module.startswith("torch")
    ]


def test_every_module_of_recall_loads_without_torch():
    modules = [
        "groupnoise." + path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
        for path in (PACKAGE / "recall").rglob("*.py")
    ]
    statement = "\n".join(f"import {module.removesuffix('.__init__')}" for module in modules)
    assert not modules_after(statement) & {"torch", "sklearn"}


def test_a_service_loads_no_reader_of_tables_and_no_solver():
    # It would be a third of what loads before the first request is answered.
    loaded = modules_after("import groupnoise.recall.http.server, groupnoise.recall.artifact")
    assert not loaded & {"polars", "scipy", "pandas", "pyarrow"}


def test_torch_loads_only_when_it_is_needed():
    statements = [
        "import groupnoise",
        "from groupnoise import Groups; Groups.from_lists([[1]])",
        "from groupnoise.io import load_dataset",
        "from groupnoise.clicks import read_clicks",
        "from groupnoise.core import hit_at_k",
        "import groupnoise.bags, groupnoise.candidates, groupnoise.decisions",
        "import groupnoise.cli",
        "from groupnoise.cli.methods import methods; methods('rs', as_json=True)",
    ]
    # One process for all; the first that loads it is named.
    watched = (f"{each}\nassert 'torch' not in sys.modules, {each!r}" for each in statements)
    assert "torch" not in modules_after("\n".join(watched))


def test_a_misspelt_word_of_fit_is_refused_before_torch_is_loaded(tmp_path):
    given = ["-p max_epoch=3", "--workers 2 -p max_epoch=3", "--method no"]
    start = ["groupnoise", "fit", "missing.csv", "-o", str(tmp_path / "model")]
    loaded = modules_after(
        "from groupnoise.cli import main\n"
        f"for words in {given!r}:\n"
        f"    sys.argv = [*{start!r}, *words.split()]\n"
        "    try:\n        main()\n    except SystemExit as left:\n        assert left.code == 2\n"
        "    else:\n        raise AssertionError(words)\n"
        "    assert 'groupnoise.reproduce.methods' in sys.modules\n"
        "    assert not sys.modules.keys() & {'torch', 'sklearn', 'polars'}, words"
    )
    assert not loaded & {"torch", "sklearn", "polars"}


def test_the_package_imports_in_under_three_tenths_of_a_second():
    code = (
        "import time; start = time.perf_counter(); import groupnoise;"
        "print(time.perf_counter() - start)"
    )
    # One of three: other work on the machine is not the package's.
    assert any(float(run_python(code).stdout) < 0.3 for _ in range(3))
