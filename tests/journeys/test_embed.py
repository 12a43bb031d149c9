"""Pictures, texts and recordings become bags with features and positions, without a download."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from groupnoise.bags import read_bags
from groupnoise.bags.embedding.folder import embed_folder, read_record
from groupnoise.exceptions import DataError, ParameterError

pytest.importorskip("PIL")
from PIL import Image

EXAMPLE = Path(__file__).parents[2] / "examples" / "digit_pictures.py"
spec = importlib.util.spec_from_file_location("digit_pictures", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)


def test_tiles_lie_where_the_digits_are_and_empty_ones_are_left_out(command, tmp_path):
    truth = example.write_pictures(tmp_path / "pictures", 12)
    said = command("embed", "pictures", "features", "--size", "32", "-q").out
    again = command("embed", "pictures", "features", "-q", code=2).err
    assert "features was embedded already; delete it first, or give another name." in again
    assert f"12 pictures, {len(truth)} objects ({12 * 16 - len(truth)} of background" in said
    bags = read_bags(tmp_path / "features")
    ids = bags.bag_ids[bags.bags.group_of_object]
    found = {(str(i), int(x), int(y)) for i, (x, y) in zip(ids, bags.coordinates, strict=True)}
    assert found == set(truth)
    assert bags.coordinate_names == ("x", "y")
    assert len(bags.feature_names) == bags.bags.objects.shape[1]
    assert bags.class_names == ["0", "1", "2"]


def test_new_pictures_are_cut_like_those_of_the_model(command, tmp_path):
    pytest.importorskip("h5py")
    example.write_pictures(tmp_path / "old", 12)
    example.write_pictures(tmp_path / "new", 6, seed=1)
    (tmp_path / "new/labels.csv").unlink()
    command("embed", "old", "a", "--size", "32", "--stride", "16", "--to", "h5", "-q")
    command("fit", "a", "--setting", "mil", "-o", "m", "-q", "-p", "max_epochs=2", "-p", "dim=8")
    command("embed", "new", "b", "--like", "a", "-q")
    assert read_record(tmp_path / "b").cut.stride == 16
    command("predict", "m", "b", "-o", "answers.csv")
    assert "picture_005" in (tmp_path / "answers.csv").read_text()


def test_a_tile_is_described_alike_wherever_it_lies(tmp_path):
    generator = np.random.default_rng(0)
    tile = generator.integers(0, 255, (16, 16, 3), dtype=np.uint8)
    canvas = np.full((40, 48, 3), 255, dtype=np.uint8)
    canvas[:16, :16] = canvas[16:32, 32:48] = tile
    (tmp_path / "in").mkdir()
    Image.fromarray(canvas).save(tmp_path / "in/one.png")
    embed_folder(tmp_path / "in", tmp_path / "out", size=16)
    with np.load(tmp_path / "out/one.npz") as found:
        np.testing.assert_array_equal(found["coords"], [[0, 0], [32, 16]])
        np.testing.assert_allclose(found["features"][0], found["features"][1], rtol=1e-5)
        assert np.isfinite(found["features"]).all()
        red = tile[..., 0] / 255
        named = dict(zip(found["feature_names"], found["features"][0], strict=True))
        assert named["red_mean"] == pytest.approx(red.mean(), rel=1e-5)
        assert named["red_deviation"] == pytest.approx(red.std(), rel=1e-5)
        assert named["red_percentile_90"] == pytest.approx(np.percentile(red, 90), rel=1e-5)


def test_pictures_of_all_modes_and_sizes_are_read(tmp_path):
    (tmp_path / "in").mkdir()
    grey = np.arange(400, dtype=np.uint16).reshape(20, 20) * 160
    Image.fromarray(grey).save(tmp_path / "in/deep.png")
    clear = np.zeros((5, 30, 4), dtype=np.uint8)
    Image.fromarray(clear).save(tmp_path / "in/clear_and_small.png")
    Image.fromarray((grey > 9000).astype(np.uint8) * 255).convert("1").save(tmp_path / "in/ink.tif")
    Image.new("P", (20, 20)).save(tmp_path / "in/palette.gif")
    made = embed_folder(tmp_path / "in", tmp_path / "out", size=16)
    assert made.n_bags == 4
    # A picture of nothing keeps one tile, for a bag needs an object.
    assert len(np.load(tmp_path / "out/palette.npz")["features"]) == 1
    np.testing.assert_allclose(
        np.load(tmp_path / "out/clear_and_small.npz")["features"][:, 0], 1.0, rtol=1e-6
    )


def test_a_module_of_ones_own_describes_tiles(tmp_path):
    import torch

    example.write_pictures(tmp_path / "pictures", 6)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 7))
    embed_folder(tmp_path / "pictures", tmp_path / "out", size=32, encoder=module)
    bags = read_bags(tmp_path / "out")
    assert bags.bags.objects.shape[1] == 7
    with pytest.raises(DataError, match="one row of features per tile"):
        embed_folder(tmp_path / "pictures", tmp_path / "b", size=32, encoder=lambda x: x)
    assert not (tmp_path / "b").exists()


OWN_ENCODER = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 5))

def letters(sentences):
    return [[len(each), each.count("e")] for each in sentences]

number = 3
"""


def test_an_encoder_on_this_disk_is_named_and_repeated(command, tmp_path):
    import torch

    (tmp_path / "mine.py").write_text(OWN_ENCODER)
    example.write_pictures(tmp_path / "pictures", 6)
    made = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 5))
    torch.save(made.state_dict(), tmp_path / "weights.pt")
    words = ("--size", "32", "-q", "--encoder", "mine.py:make")
    command("embed", "pictures", "drawn", *words)
    command("embed", "pictures", "loaded", *words, "--weights", "weights.pt")
    command("embed", "pictures", "again", "--like", "loaded", "-q")
    drawn, loaded, again = (
        read_bags(tmp_path / name).bags.objects for name in ("drawn", "loaded", "again")
    )
    assert drawn.shape[1] == 5
    assert not np.allclose(drawn, loaded)
    np.testing.assert_array_equal(loaded, again)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("The hen sleeps. No!")
    command("embed", "texts", "counted", "-q", "--encoder", "mine.py:letters")
    np.testing.assert_array_equal(
        np.load(tmp_path / "counted/a.npz")["features"], [[15, 4], [3, 0]]
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("resnet18",), "an encoder is one of timm:NAME, open_clip:NAME"),
        (("timm:resnet18",), "needs its weights as a file (--weights)"),
        (("none.py:make",), "there is no file none.py to take the encoder from"),
        (("mine.py:other",), "mine.py gives no encoder 'other'"),
        (("mine.py:number",), "'number' of mine.py is no torch module"),
        (("mine.py:make", "--weights", "none.pt"), "there is no file of weights none.pt"),
        (("mine.py:make", "--weights", "other.pt"), "other.pt lacks 2 weights of this model"),
        (("mine.py:make", "--weights", "pickled.pt"), "never unpickled; save the weights"),
        (("mine.py:make", "--like", "built_in"), "built_in was described by the built-in"),
        (("sentence-transformers:nobody/none",), "run `hf download nobody/none` first"),
    ],
)
def test_an_encoder_that_is_not_there_is_one_sentence(command, tmp_path, words, sentence):
    import torch

    if "sentence" in words[0]:
        pytest.importorskip("sentence_transformers")
    (tmp_path / "mine.py").write_text(OWN_ENCODER)
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pt")
    torch.save({"a": Path("x")}, tmp_path / "pickled.pt")
    (tmp_path / "in").mkdir()
    Image.new("RGB", (32, 32)).save(tmp_path / "in/one.png")
    if "built_in" in words:
        command("embed", "in", "built_in", "-q", "--size", "32")
    size = () if "--like" in words else ("--size", "32")
    said = command("embed", "in", "out", "-q", *size, "--encoder", *words, code=2).err
    assert sentence in " ".join(said.split())
    assert not (tmp_path / "out").exists()


def test_sentences_are_weighed_by_their_words(command, tmp_path):
    (tmp_path / "in").mkdir()
    texts = {"a": "The fox runs. It is red!\n\nNo one sees it", "b": "A hen sleeps."}
    for name, text in texts.items():
        (tmp_path / f"in/{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "in/labels.csv").write_text("text,label\na,fox\nb,hen\n")
    command("embed", "in", "out", "-q")
    bags = read_bags(tmp_path / "out")
    assert bags.coordinate_names == ("begin", "end")
    spans = bags.coordinates[: bags.bags.sizes[0]].astype(int)
    assert [texts["a"][a:b] for a, b in spans] == ["The fox runs.", "It is red!", "No one sees it"]
    fox = bags.feature_names.index("fox")
    assert (bags.bags.objects[:, fox] > 0).tolist() == [True, False, False, False]
    np.testing.assert_allclose((bags.bags.objects**2).sum(axis=1), 1, rtol=1e-5)


def test_segments_of_a_recording_tell_tones_apart(command, tmp_path):
    from scipy.io import wavfile

    (tmp_path / "in").mkdir()
    for name, rate in (("low_rate", 8000), ("high_rate", 44100)):
        time = np.arange(rate) / rate
        tones = [np.sin(2 * np.pi * 440 * time), 0 * time, np.sin(2 * np.pi * 2500 * time)]
        wavfile.write(
            tmp_path / f"in/{name}.wav", rate, (np.concatenate(tones) * 2**14).astype(np.int16)
        )
    said = command("embed", "in", "out", "-q").out
    assert "2 recordings, 4 objects (2 of background left out)" in said
    loudest = {}
    for name in ("low_rate", "high_rate"):
        with np.load(tmp_path / f"out/{name}.npz") as found:
            np.testing.assert_allclose(found["coords"], [[0, 1], [2, 3]], atol=1e-3)
            means = found["features"][:, :32]
            loudest[name] = means.argmax(axis=1).tolist()
    # The same tone is in the same band, whatever the rate of the file.
    assert loudest["low_rate"] == loudest["high_rate"]
    assert loudest["low_rate"][0] < loudest["low_rate"][1]


def test_what_cannot_be_embedded_is_one_sentence(command, tmp_path):
    (tmp_path / "in").mkdir()
    said = command("embed", "in", "out", code=2).err
    assert "in holds no raw files" in said
    assert "folders below" not in said
    (tmp_path / "in/a.png").write_bytes(b"\x89PNG but no more")
    said = command("embed", "in", "out", code=2).err
    assert "in/a.png cannot be read as a picture" in said
    (tmp_path / "in/b.wav").write_bytes(b"RIFF")
    said = command("embed", "in", "out", code=2).err
    assert "in holds pictures and recordings; say which" in said
    said = command("embed", "in", "out", "--kind", "recordings", code=2).err
    assert "in/b.wav cannot be read as a recording" in said
    (tmp_path / "in/c.txt").write_bytes(b"caf\xe9 au lait.")
    said = command("embed", "in", "out", "--kind", "texts", code=2).err
    assert "in/c.txt is not UTF-8 at byte 3" in said
    assert not (tmp_path / "out").exists()
    with pytest.raises(ParameterError, match="at least 8 pixels"):
        embed_folder(tmp_path / "in", tmp_path / "out", kind="pictures", size=4)
    (tmp_path / "made").mkdir()
    (tmp_path / "made/embedding.json").write_text(json.dumps({"kind": "texts"}))
    said = command("embed", "in", "out", "--kind", "texts", "--like", "made", code=2).err
    assert "made/embedding.json is damaged" in said


def test_what_systems_put_beside_pictures_is_left_alone(command, tmp_path):
    for place in ("in", "in/deeper", "nested/class"):
        (tmp_path / place).mkdir(parents=True)
        Image.fromarray(np.eye(70, dtype=np.uint8) * 255).save(tmp_path / place / "a.png")
    (tmp_path / "in/._a.png").write_bytes(b"none")
    (tmp_path / "in/Labels.CSV").write_text("id,label\na,x\n")
    assert "1 picture, " in command("embed", "in", "out", "-q").out
    assert (tmp_path / "out/Labels.CSV").is_file()
    assert "1 picture, " in command("embed", "nested", "below", "-q").out
    assert (tmp_path / "below/class/a.npz").is_file()


def write_noises(place, n_pictures, kind):
    """Pictures of noise, of which one kind has a stripe in each tile."""
    place.mkdir(parents=True)
    generator = np.random.default_rng(len(str(place)))
    for number in range(n_pictures):
        pixels = generator.integers(0, 200, (16, 32, 3), dtype=np.uint8)
        pixels[:, 3:6] = [255, 0, 0] if kind == "red" else [0, 0, 255]
        Image.fromarray(pixels).save(place / f"{number}.png")


def test_folders_called_by_labels_go_to_a_heat_map_in_three_commands(command, tmp_path):
    for kind in ("red", "blue"):
        write_noises(tmp_path / "pictures" / kind, 6, kind)
    (tmp_path / "pictures/README.txt").write_text("Found in the attic.")
    (tmp_path / "pictures/red/.thumbs").mkdir()
    done = command("embed", "pictures", "features", "--size", "16", "-q")
    told = "took the names of folders below pictures as labels: blue (6), red (6)"
    assert told in " ".join(done.err.split())
    done = command("fit", "features", "-o", "model", "-q", "-p", "max_epochs=3", "-p", "dim=4")
    assert "below features as labels: blue (6), red (6)" in " ".join(done.err.split())
    command("heatmap", "model", "features", "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "blue/0" in page
    assert page.count("data:image/jpeg") == 12  # every bag found its picture
    command("predict", "model", "features", "--to", "csv", "-o", "answers")
    assert (tmp_path / "answers/red/5.csv").is_file()
    bags = read_bags(tmp_path / "features")
    assert bags.bag_ids.tolist()[:2] == ["blue/0", "blue/1"]  # two are called 0
    assert [bags.class_names[k] for k in bags.labels.argmax(axis=1)] == ["blue"] * 6 + ["red"] * 6


def test_a_picture_beside_folders_of_more_is_told_of(command, tmp_path):
    write_noises(tmp_path / "in/red", 3, "red")
    Image.fromarray(np.eye(70, dtype=np.uint8) * 255).save(tmp_path / "in/overview.png")
    said = " ".join(command("embed", "in", "out", code=2).err.split())
    assert "in holds overview.png beside 3 pictures in folders below; move it" in said
