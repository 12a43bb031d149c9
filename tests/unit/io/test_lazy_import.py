"""Importing the folder is quick: its names load their modules on first use."""

import subprocess
import sys


def test_importing_the_folder_loads_no_heavy_package():
    program = (
        "import sys, groupnoise.io, groupnoise.bags, groupnoise.candidates, groupnoise.clicks; "
        "print([name for name in ('torch', 'scipy', 'sklearn', 'polars') if name in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "[]"


def test_a_column_that_is_not_there_is_refused_before_heavy_packages_load(tmp_path):
    (tmp_path / "rows.csv").write_text("x,candidates\n1.5,a|b\n2.5,a\n")
    program = (
        "import sys; from groupnoise.__main__ import main\n"
        "try: main()\n"
        "finally: print([name for name in ('torch', 'sklearn') if name in sys.modules])"
    )
    words = ["fit", tmp_path / "rows.csv", "--candidates", "nope", "-o", tmp_path / "model"]
    finished = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert "no column 'nope'" in finished.stderr
    assert finished.stdout.strip() == "[]"
