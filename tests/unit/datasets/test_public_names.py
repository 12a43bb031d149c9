"""The public face of the folder."""

import subprocess
import sys

import pytest

import groupnoise.datasets


@pytest.mark.parametrize("name", groupnoise.datasets.__all__)
def test_every_public_name_is_there_and_documented(name):
    public = getattr(groupnoise.datasets, name)
    assert name == "Dataset" or public.__doc__


def test_importing_the_folder_loads_no_heavy_package():
    program = (
        "import sys, groupnoise.datasets; "
        "print([name for name in ('torch', 'scipy', 'sklearn', 'polars') if name in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "[]"
