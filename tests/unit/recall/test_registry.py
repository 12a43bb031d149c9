"""A registry gains versions, serves one of them, and survives damage and kills."""

import pytest

from groupnoise.exceptions import ModelFileError, ParameterError
from groupnoise.recall import Registry, open_artifact
from groupnoise.recall.registry import POINTER
from processes import run_python
from serving_support import VECTORS, add, write_shop


@pytest.fixture
def registry(tmp_path):
    return Registry.create(tmp_path / "shop")


def damage(registry, version):
    path = next((registry.path / version).glob("target_vectors-*.npy"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_adding_keeps_every_version_and_promotes_none(registry):
    names = [add(registry, scale) for scale in (1, 2, 3)]
    assert [version.name for version in registry.versions()] == names
    assert registry.current is None
    with pytest.raises(ModelFileError, match="nothing is promoted"):
        open_artifact(registry.path)


def test_the_promoted_version_is_what_opens(registry):
    first, second = add(registry), add(registry, 2)
    assert registry.promote() == second
    assert open_artifact(registry.path).version == second
    assert registry.promote(first[:6]) == first
    assert open_artifact(registry.path).version == first
    assert registry.rollback() == (second, [])
    with pytest.raises(ModelFileError, match="promoted before"):
        registry.rollback()
    assert registry.current == second


def test_equal_content_is_one_version_and_repairs_what_was_damaged(registry):
    version = add(registry)
    damage(registry, version)
    assert registry.versions(every_byte=True)[0].problem is not None
    assert add(registry) == version
    assert [each.problem for each in registry.versions(every_byte=True)] == [None]


def test_a_damaged_version_is_never_promoted(registry):
    good, bad = add(registry), add(registry, 2)
    registry.promote(good)
    damage(registry, bad)
    with pytest.raises(ModelFileError, match=r"checksum|altered|damaged"):
        registry.promote(bad)
    assert registry.current == good


def test_going_back_passes_over_damage_with_a_sentence(registry):
    names = [add(registry, scale) for scale in (1, 2, 3)]
    for name in names:
        registry.promote(name)
    damage(registry, names[1])
    version, passed_over = registry.rollback()
    assert version == names[0]
    assert len(passed_over) == 1
    assert names[1] in passed_over[0]


def test_pruning_keeps_the_newest_the_promoted_and_the_one_before(registry):
    names = [add(registry, scale) for scale in (1, 2, 3, 4, 5)]
    registry.promote(names[0])
    registry.promote(names[2])
    assert registry.prune(keep=1) == [names[1], names[3]]
    assert [version.name for version in registry.versions()] == [names[0], names[2], names[4]]
    assert registry.prune(keep=1) == []


def test_a_version_changed_in_place_is_told_apart(registry):
    version = add(registry)
    write_shop(registry.path / version, target_vectors=VECTORS * 7)
    assert "changed in place" in registry.versions()[0].problem


def test_what_is_no_registry_is_refused(tmp_path, registry):
    with pytest.raises(ModelFileError, match="is no registry"):
        Registry(tmp_path)
    with pytest.raises(ParameterError, match="exists and is no registry"):
        Registry.create(tmp_path)
    with pytest.raises(ParameterError, match="no version"):
        registry.promote()
    add(registry)
    with pytest.raises(ParameterError, match="no version begins"):
        registry.promote("../..")
    for content in ("{", "[]", '{"format": "groupnoise-registry", "format_version": 1}'):
        (registry.path / POINTER).write_text(content)
        with pytest.raises(ModelFileError, match=POINTER):
            registry.versions()


def test_a_failed_export_leaves_nothing(registry):
    def fail():
        with registry.adding() as folder:
            write_shop(folder)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        fail()
    assert [path.name for path in registry.path.iterdir()] == [POINTER]


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from groupnoise.recall import Registry, open_artifact
from groupnoise.recall.artifact import write_artifact

source, vectors = Path(sys.argv[1]), [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]

def add(registry, scale):
    scaled = [[scale * value for value in row] for row in vectors]
    with registry.adding() as folder:
        write_artifact(folder, ids=[1, 2, 3], query_vectors=scaled, target_vectors=scaled,
                       target_bias=None, popularity=[1, 2, 3])

def killed_at(number, registry):
    left = number
    def counted(call):
        def counting(*arguments, **options):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)
        return counting
    for name in ("replace", "rename", "rmdir", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    for name in ("replace", "rename"):
        setattr(Path, name, counted(getattr(Path, name)))
    add(registry, 2.0)
    registry.promote()
    registry.prune(keep=1)

before = Registry.create(source)
for scale in (5.0, 6.0, 1.0):
    add(before, scale)
    before.promote()
number, is_killed = 0, True
while is_killed:
    number += 2
    copy = source.with_name(f"copy{number}")
    shutil.copytree(source, copy)
    registry = Registry(copy)
    child = os.fork()
    if child == 0:
        killed_at(number, registry)
        os._exit(0)
    is_killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert open_artifact(copy, memory_map=False).version == registry.current
    assert all(version.problem is None for version in registry.versions(every_byte=True))
    for left in copy.glob(".unfinished-*"):
        os.utime(left, (0, 0))
    add(registry, 2.0)
    registry.prune(keep=1)
    assert not list(copy.glob(".unfinished-*"))
print(number)
"""


def test_a_kill_at_any_step_leaves_a_registry_that_serves(tmp_path):
    steps = int(run_python(KILLED, str(tmp_path / "shop")).stdout)
    assert steps > 20


def test_the_newest_is_not_passed_over_where_its_manifest_is_damaged(registry):
    good, bad = add(registry), add(registry, 2)
    (registry.path / bad / "manifest.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"manifest\.json"):
        registry.promote()
    assert registry.promote(good[:4]) == good
    with pytest.raises(ParameterError, match="too short to name a version"):
        registry.promote(good[:1])
