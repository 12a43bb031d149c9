"""Python in a process of its own, for what depends on a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys


def run_python(code: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter; a failure shows what it wrote to stderr."""
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert not check or finished.returncode == 0, finished.stderr
    return finished


def modules_after(statement: str) -> set[str]:
    """Names of the modules loaded after a statement ran in a fresh interpreter."""
    finished = run_python(f"import sys\n{statement}\nprint('\\n'.join(sys.modules))")
    return set(finished.stdout.split())
