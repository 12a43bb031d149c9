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
