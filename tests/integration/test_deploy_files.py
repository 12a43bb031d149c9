"""The files of `deploy/` say what the service needs, and agree with each other."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from groupnoise.cli.app import app
from groupnoise.recall.http.settings import ServiceSettings

yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def instructions():
    """The instructions of the Dockerfile, lines joined, as (word, rest)."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def kubernetes():
    return {
        each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    }


def container():
    (found,) = kubernetes()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def serve_commands():
    """Every command line that starts the service."""
    yield yaml.safe_load(dict(instructions())["CMD"])
    yield container()["args"]


def test_every_command_that_starts_the_service_is_one_it_knows():
    known = CliRunner().invoke(app, ["serve", "--help"], terminal_width=200).stdout
    for words in serve_commands():
        assert words[:2] == ["groupnoise", "serve"]
        options = [word for word in words if word.startswith("--")]
        assert options
        assert all(option in known for option in options)


def test_the_image_copies_what_exists_and_runs_as_nobody_special():
    words = instructions()
    assert words[0][0] == "FROM"
    ignored = (ROOT / ".dockerignore").read_text().split()
    for sources in (shlex.split(rest)[:-1] for word, rest in words if word == "COPY"):
        for source in sources:
            assert (ROOT / source).exists()
            assert f"!{source.removeprefix('./')}" in ignored
    users = [rest for word, rest in words if word == "USER"]
    assert users == ["10001"]
    last_root = max(number for number, (word, _) in enumerate(words) if word == "RUN")
    assert last_root < [word for word, _ in words].index("USER")


def test_the_extras_that_are_installed_exist():
    tomllib = pytest.importorskip("tomllib")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (install,) = [rest for word, rest in instructions() if word == "RUN" and "pip" in rest]
    named = re.search(r"\.\[([\w,]+)\]", install)[1].split(",")
    assert set(named) <= set(extras["optional-dependencies"])
    assert "-c constraints.txt" in install


def test_compose_builds_this_image_and_gives_it_a_token_and_models():
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    build = service["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert "GROUPNOISE_TOKEN" in service["environment"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert service["volumes"][0].endswith(":/models:ro")


def test_kubernetes_asks_routes_that_the_service_has_and_finds_its_pods():
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from groupnoise.recall.http import app as routes

    served = Path(routes.__file__).read_text()
    own = container()
    for probe in ("readinessProbe", "livenessProbe"):
        assert f'"{own[probe]["httpGet"]["path"]}"' in served
    found = kubernetes()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (port,) = own["ports"]
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]


def test_a_pod_has_the_time_to_answer_what_it_has():
    pod = kubernetes()["Deployment"]["spec"]["template"]["spec"]
    before = int(container()["lifecycle"]["preStop"]["exec"]["command"][1])
    longest = ServiceSettings(artifact=Path("shop")).grace_seconds
    assert pod["terminationGracePeriodSeconds"] > before + longest


def test_volumes_and_mounts_agree_and_nothing_is_privileged():
    pod = kubernetes()["Deployment"]["spec"]["template"]["spec"]
    mounted = {mount["name"] for mount in container()["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"]
    own = container()["securityContext"]
    assert own["readOnlyRootFilesystem"]
    assert not own["allowPrivilegeEscalation"]
    (user,) = [rest for word, rest in instructions() if word == "USER"]
    assert str(pod["securityContext"]["runAsUser"]) == user


def has_builder():
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True).returncode == 0


@pytest.mark.nightly
def test_the_image_builds():
    if not has_builder():
        pytest.skip("no docker daemon runs here")
    words = ["docker", "build", "-q", "-f", str(DEPLOY / "Dockerfile"), str(ROOT)]
    built = subprocess.run(words, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
