"""Files and folders of users' own on the command line: what is refused is said in one sentence."""

import pytest

from groupnoise.clicks import make_shop
from groupnoise.io import write_groups

CLICKS = "user,item,time\n" + "".join(
    f"u{user},{item},{step}\n" for user in range(12) for step, item in enumerate("abcab")
)
FACES = "f1,f2,candidates\n" + "".join(
    f"{row % 2}.{row},{row % 3},{('a|b', 'a', 'b')[row % 3]}\n" for row in range(30)
)


@pytest.fixture
def refused(groupnoise):
    """Run a command that must end with one sentence and exit code 2, and return the sentence."""

    def run(*words):
        code, _, said = groupnoise(*words)
        assert code == 2, said
        errors = [line for line in said.splitlines() if "error: " in line]
        assert len(errors) == 1, said
        assert said.rstrip().endswith(errors[0])
        return errors[0]

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A recall model, its artifact and a classifier of candidate labels."""
    from groupnoise.candidates.baselines import PLKNNClassifier
    from groupnoise.clicks.baselines import CooccurrenceRecommender

    folder = tmp_path_factory.mktemp("trained")
    recommender = CooccurrenceRecommender().fit([list("abcab")] * 12)
    recommender.save(folder / "rs")
    recommender.export(folder / "artifact")
    labels = [["a", "b"], ["a"], ["b"]] * 10
    features = [[row % 2, row % 3] for row in range(30)]
    PLKNNClassifier().fit(features, labels).save(folder / "pll")
    return folder


@pytest.fixture
def files(tmp_path):
    (tmp_path / "clicks.csv").write_text(CLICKS)
    (tmp_path / "faces.csv").write_text(FACES)
    (tmp_path / "folder.csv").mkdir()
    return tmp_path


def content_of(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def test_a_command_never_writes_over_what_it_reads(refused, trained, files):
    write_groups(files / "shop", make_shop(50, 20, random_state=0))
    before = content_of(files)
    rs, pll, artifact = trained / "rs", trained / "pll", trained / "artifact"
    for words in (
        ["recall", artifact, "--histories", "clicks.csv", "--output", "./clicks.csv"],
        ["predict", pll, "faces.csv", "--setting", "pll", "-o", "faces.csv"],
        ["predict", pll, "face*.csv", "--setting", "pll", "-o", "faces.csv"],
        ["predict", pll, ".", "--setting", "pll", "-o", "faces.csv"],
        ["fit", "shop", "-o", "shop"],
        ["audit", "shop", "-o", "shop"],
        ["export", rs, "--output", rs],
    ):
        assert "is what is read" in refused(*words)
    assert content_of(files) == before
    assert (rs / "manifest.json").is_file()


def test_a_folder_of_another_kind_is_named_with_the_remedy(refused, trained, files):
    rs, artifact = trained / "rs", trained / "artifact"
    for words in (
        ["recall", rs, "--histories", "clicks.csv", "--output", "out.csv"],
        ["serve", rs, "--port", 0],
        ["items", "list", rs],
    ):
        said = refused(*words)
        assert f"{rs} is a model of `groupnoise fit`, not a groupnoise artifact" in said
        assert f"`groupnoise export {rs} -o ARTIFACT`" in said
    assert "is a model of `groupnoise fit`, not data" in refused("fit", rs, "-o", "new")
    for words in (
        ["evaluate", artifact, "clicks.csv"],
        ["predict", artifact, "clicks.csv", "-o", "out.csv"],
        ["fit", "clicks.csv", "--from", artifact, "-o", "new"],
        ["export", artifact, "-o", "new"],
    ):
        said = refused(*words)
        assert f"{artifact} is an artifact of `groupnoise export`, not a groupnoise model" in said
        assert "give the folder that save() or `groupnoise fit` wrote" in said


def test_only_what_is_of_the_same_kind_is_replaced_and_it_is_said(
    groupnoise, refused, trained, files
):
    counted = ["fit", "clicks.csv", "--method", "popularity", "-q", "-o"]
    assert "which would be lost" in refused(*counted, trained / "artifact")
    assert "which would be lost" in refused("export", trained / "rs", "-o", trained / "pll")
    (files / "folder.csv" / "manifest.json").write_text('{"name": "my web page"}')
    assert "a manifest.json of something else" in refused(*counted, "folder.csv")
    assert (files / "folder.csv" / "manifest.json").read_text() == '{"name": "my web page"}'
    for is_replaced in (False, True):
        assert ("in place of the model there" in groupnoise(*counted, "model")[1]) is is_replaced
        said = groupnoise("export", "model", "-o", "served")[1]
        assert ("in place of the artifact there" in said) is is_replaced


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "faces.csv", "--setting", "pll", "-o", "clicks.csv"],
        ["fit", "faces.csv", "--setting", "pll", "-o", "clicks.csv/model"],
        ["fit", "faces.csv", "--setting", "pll", "-o", "/proc/abc"],
        ["predict", "PLL", "faces.csv", "--setting", "pll", "-o", "folder.csv"],
        ["predict", "PLL", "faces.csv", "--setting", "pll", "-o", "clicks.csv/x.csv"],
        ["export", "RS", "--output", "/proc/abc"],
        ["export", "RS", "--output", "clicks.csv/x"],
        ["recall", "ARTIFACT", "--histories", "clicks.csv", "--output", "folder.csv"],
        ["recall", "ARTIFACT", "--histories", "clicks.csv", "--output", "faces.csv/x.csv"],
        ["audit", "faces.csv", "--setting", "pll", "-o", "/proc/x"],
        ["audit", "faces.csv", "--setting", "pll", "-o", "out", "--clean", "/proc/x"],
        ["data", "describe", "faces.csv", "--setting", "pll", "--html", "/proc/x.html"],
        ["data", "describe", "faces.csv", "--setting", "pll", "--html", "folder.csv"],
        ["demo", "--quick", "--output", "/proc/x"],
    ],
)
def test_an_unusable_output_is_refused_before_the_work(refused, trained, files, monkeypatch, words):
    import groupnoise.cli.sources as sources

    def fail(*_, **__):
        raise AssertionError("data was read before the output was checked")

    monkeypatch.setattr(sources, "read_file", fail)
    before = content_of(files)
    places = {name.upper(): trained / name for name in ("pll", "rs", "artifact")}
    said = refused(*[places.get(word, word) for word in words])
    assert any(reason in said for reason in ("cannot be written", "is a file", "is a folder"))
    assert content_of(files) == before


def test_a_log_out_of_order_is_put_in_order_and_recalled(groupnoise, trained, files):
    header, first, second, *others = CLICKS.splitlines()
    (files / "sorted.csv").write_text(CLICKS)
    (files / "clicks.csv").write_text("\n".join([header, second, first, *others]))
    for name in ("clicks", "sorted"):
        code, _, said = groupnoise(
            "recall", trained / "artifact", "--histories", f"{name}.csv", "--output",
            f"{name}.jsonl", "--quiet",
        )  # fmt: skip
        assert code == 0, said
    assert (files / "clicks.jsonl").read_bytes() == (files / "sorted.jsonl").read_bytes()


def test_a_log_of_another_make_is_recalled(groupnoise, trained, files):
    semicolons = "\ufeff" + CLICKS.replace(",", ";").replace("\n", "\r\n") + "u99;new;1\r\n"
    (files / "clicks.csv").write_bytes(semicolons.encode())
    code, said, _ = groupnoise(
        "recall", trained / "artifact", "--histories", "clicks.csv", "--output", "recs.csv",
        "--quiet",
    )  # fmt: skip
    assert code == 0
    assert "13 histories" in said
    rows = [line.split(",") for line in (files / "recs.csv").read_text().splitlines()]
    assert rows[0] == ["user", "rank", "item", "score", "source"]
    assert {row[4] for row in rows if row[0] == "u99"} == {"popularity"}
    assert sorted(path.name for path in files.glob("recs*")) == ["recs.csv"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "shop", "--setting", "rs", "-o", "x"], "leave out --setting"),
        (["fit", "pll.xlsx", "--setting", "pll", "-o", "x"], "save it as CSV"),
        (["fit", "digit-bags", "-o", "x", "-q", "-p", "selection={}"], "selection must be one of"),
        (
            ["data", "convert", "clicks.csv", "folder.csv", "--setting", "rs", "--overwrite"],
            "is no data folder, so it is never replaced",
        ),
        (
            ["fit", "faces.csv", "--setting", "pll", "-o", "x", "--checkpoint", "/proc/x"],
            "/proc/x cannot be written",
        ),
    ],
)
def test_what_cannot_be_done_is_said_with_the_remedy(refused, files, monkeypatch, words, sentence):
    monkeypatch.setattr("groupnoise.training.folder_lock.WAIT_SECONDS", 0.2)
    (files / "pll.xlsx").write_bytes(b"PK")
    assert sentence in refused(*words)
    assert not (files / "x").exists()


@pytest.mark.parametrize("command", ["fit", "audit", "evaluate"])
def test_a_negative_seed_is_refused(groupnoise, command):
    data = {"fit": ["shop", "-o", "x"], "audit": ["shop"], "evaluate": ["x", "shop"]}[command]
    code, _, said = groupnoise(command, *data, "--seed", "-1")
    assert code == 2
    assert "Traceback" not in said
    assert "--seed" in said
