"""What trials say of the code that made them."""

import subprocess

from groupnoise.reproduce.provenance import TIMES, checkout


def git(folder, *words):
    named = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def test_a_changed_file_is_told_and_the_kept_times_are_none(tmp_path):
    package = tmp_path / "package"
    times = package / TIMES
    times.parent.mkdir(parents=True)
    times.write_text("{}")
    (package / "__init__.py").write_text("")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    found = []
    for path in (None, times, package / "__init__.py"):
        if path is not None:
            path.write_text("# changed")
        checkout.cache_clear()
        found.append(checkout(package))
    assert [each["dirty"] for each in found] == [False, False, True]
    assert len(found[0]["commit"]) == 40


def test_a_package_outside_a_checkout_has_no_commit(tmp_path):
    assert checkout(tmp_path) == {"commit": None, "dirty": None}
