"""Answers that are looked at: a file per bag with coordinates, and a page of heat maps."""

import base64
import importlib.util
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from bag_folders import make_bags, write_folder
from groupnoise.bags.embedding.sources import Sources
from groupnoise.bags.heatmap import (
    MAX_OPACITY,
    MIN_OPACITY,
    heatmap_page,
    lay_on_grid,
    make_card,
    paint_timeline,
)
from groupnoise.bags.object_predictions import ObjectPredictions
from groupnoise.core.groups import Groups
from groupnoise.io.datasets import BagDataset
from groupnoise.pages import encode_png

pytest.importorskip("PIL")
from PIL import Image

EXAMPLE = Path(__file__).parents[2] / "examples" / "digit_pictures.py"
spec = importlib.util.spec_from_file_location("digit_pictures", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
QUICK = ["-q", "-p", "max_epochs=3", "-p", "dim=8"]


def pictures_of(page, kind):
    """The images of a page whose class begins with a word."""
    found = re.findall(rf'<img class="{kind}[^"]*" src="data:image/\w+;base64,([^"]+)"', page)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in found]


def test_a_page_lays_answers_over_the_pictures_they_were_cut_from(command, tmp_path):
    truth = example.write_pictures(tmp_path / "pictures", 12)
    command("embed", "pictures", "features", "--size", "32", "-q")
    command("fit", "features", "--setting", "mil", "-o", "model", *QUICK)
    said = command("heatmap", "model", "features", "-o", "map.html").out
    assert "heat maps of 12 of 12 bags written to map.html" in said
    page = (tmp_path / "map.html").read_text()
    assert "http:" not in page.replace("http://www.w3.org", "")
    assert "https:" not in page
    assert len(pictures_of(page, "below")) == 12
    layers = pictures_of(page, "layer")
    assert len(layers) == 12 * 3 * 2  # bags, classes, and two kinds of values
    # One cell per tile: as many cells as digits can be seen, and none where nothing lies.
    seen = [int((np.asarray(layer)[..., 3] > 0).sum()) for layer in layers[:6]]
    assert seen == [sum(bag == "picture_000" for bag, _, _ in truth)] * 6
    box = re.search(r'style="left: ([\d.]+)%; top: ([\d.]+)%; width: ([\d.]+)%', page)
    xs = [x for bag, x, _ in truth if bag == "picture_000"]
    assert float(box[1]) == pytest.approx(100 * min(xs) / 128)
    assert float(box[3]) == pytest.approx(100 * (max(xs) + 32 - min(xs)) / 128)
    assert page.count("<li>") == 3 * 2 * 10


def test_a_grid_of_coordinates_needs_no_picture_and_no_labels(command, tmp_path):
    data, words = write_folder(tmp_path, "npz")
    command("fit", data, *words, "-o", "model", *QUICK)
    (tmp_path / "labels.csv").unlink()
    command("heatmap", "model", data, "-o", "map.html", "--max-bags", "5")
    page = (tmp_path / "map.html").read_text()
    assert page.count('<figure class="bag"') == 5
    assert "mistakes only" not in page
    layer = np.asarray(pictures_of(page, "layer")[0])
    assert layer.shape == (1, len(make_bags()["slide_00"][0]), 4)


def test_texts_are_coloured_and_recordings_get_a_timeline(command, tmp_path):
    from scipy.io import wavfile

    (tmp_path / "texts").mkdir()
    (tmp_path / "sounds").mkdir()
    generator = np.random.default_rng(0)
    lines = ["name,label"]
    for number in range(8):
        label = "fox" if number % 2 else "hen"
        text = f"It rains <b>again</b>. A {label} comes. It is late."
        (tmp_path / f"texts/n{number}.txt").write_text(text)
        tone = np.sin(np.arange(32000) * (0.2 if number % 2 else 0.7))
        sound = np.concatenate([generator.normal(size=16000) * 0.1, tone * 0.5])
        wavfile.write(tmp_path / f"sounds/n{number}.wav", 16000, sound.astype(np.float32))
        lines.append(f"n{number},{label}")
    for kind in ("texts", "sounds"):
        (tmp_path / kind / "labels.csv").write_text("\n".join(lines) + "\n")
        command("embed", kind, f"{kind}_features", "-q")
        command("fit", f"{kind}_features", "--setting", "mil", "-o", f"{kind}_model", *QUICK)
        command("heatmap", f"{kind}_model", f"{kind}_features", "-o", f"{kind}.html")
    page = (tmp_path / "texts.html").read_text()
    assert page.count('class="sentence"') == 8 * 3
    assert "It rains &lt;b&gt;again&lt;/b&gt;." in page  # shown as it is, never run
    assert "<q>A fox comes.</q>" in page
    page = (tmp_path / "sounds.html").read_text()
    assert {strip.size for strip in pictures_of(page, "layer")} == {(600, 1)}
    spectrum = np.asarray(pictures_of(page, "below")[1])[..., 0].astype(int)  # a fox: low at last
    assert spectrum.shape == (32, 600)
    assert spectrum[:, 250:550].mean(axis=1).argmin() > 20
    assert page.count("<span>3 s</span>") == 8


def test_a_timeline_ends_where_the_recording_does_though_silence_is_left_out(command, tmp_path):
    from scipy.io import wavfile

    (tmp_path / "sounds").mkdir()
    tones = {name: np.sin(np.arange(16000) * pitch) for name, pitch in (("low", 0.1), ("high", 1))}
    for number, (name, tone) in enumerate(4 * list(tones.items())):
        sound = np.concatenate([tone * 0.5, np.zeros(48000)]).astype(np.float32)
        (tmp_path / f"sounds/{name}").mkdir(exist_ok=True)
        wavfile.write(tmp_path / f"sounds/{name}/n{number}.wav", 16000, sound)
    assert "24 of background left out" in command("embed", "sounds", "features", "-q").out
    command("fit", "features", "--setting", "mil", "-o", "model", *QUICK)
    command("heatmap", "model", "features", "-o", "map.html")
    page = (tmp_path / "map.html").read_text()
    assert page.count("<span>4 s</span>") == 8
    strip = np.asarray(pictures_of(page, "layer")[0])[0, :, 3]
    assert (strip[:150] > 0).all()
    assert not strip[150:].any()


def test_bags_of_a_label_that_no_object_carries_show_the_class_that_may_be_there():
    classes = ["adenoma", "benign", "tumour"]
    probability = np.array([[0.1, 0.7, 0.2], [0.0, 1.0, 0.0]] * 3)
    answers = ObjectPredictions(
        bag_ids=["clear", "mistaken", "missed"],
        offsets=np.array([0, 2, 4, 6]),
        class_names=classes,
        probability=probability,
        background=np.zeros(6),
        responsibility=probability,
        answered=np.ones(6, dtype=np.int64),
        predicted=["benign", "adenoma", "benign"],
        negative="benign",
        coordinates=np.tile([[0.0, 0.0], [256.0, 0.0]], (3, 1)),
        coordinate_names=("x", "y"),
    )
    labels = np.eye(3, dtype=bool)[[1, 1, 2]]
    bags = Groups(np.zeros((6, 1)), answers.offsets)
    dataset = BagDataset("slides", bags, labels, classes)
    own = [classes[make_card(bag, answers, dataset, Sources()).own] for bag in range(3)]
    assert own == ["tumour", "adenoma", "tumour"]  # the likeliest, what it is taken for, its label
    page = heatmap_page(answers, dataset, Sources())
    assert "No object carries benign" in page
    assert re.findall(r"· (\w+) shown<", page) == ["tumour", "adenoma"]


def test_thumbnails_of_a_job_of_trident_are_as_wide_as_its_slides(command, tmp_path):
    h5py = pytest.importorskip("h5py")
    data, words = write_folder(tmp_path, "trident")
    (tmp_path / "bags/thumbnails").mkdir()
    for number, bag in enumerate(make_bags()):
        picture = Image.new("RGB", (100 + number, 50), "pink")
        picture.save(tmp_path / f"bags/thumbnails/{bag}.jpg")
    command("fit", data, *words, "-o", "model", *QUICK)
    said = command("heatmap", "model", data, "-o", "map.html").err
    assert "took the pictures in bags/thumbnails (--sources names others)" in said
    assert "objects of 24 bags, first 'slide_00', lie beyond their pictures" in said
    assert not pictures_of((tmp_path / "map.html").read_text(), "below")
    for file in (tmp_path / "bags").glob("*/*/*.h5"):
        with h5py.File(file, "a") as opened:
            opened["coords"].attrs["level0_width"] = 5120
    said = command("heatmap", "model", data, "-o", "map.html").err
    assert "beyond" not in said
    page = (tmp_path / "map.html").read_text()
    assert len(pictures_of(page, "below")) == 24
    boxes = re.findall(r'style="left: ([\d.]+)%; top: [\d.]+%; width: ([\d.]+)%', page)
    sizes = [len(features) for features, _, _ in make_bags().values()]
    widths = list(dict.fromkeys(float(width) for _, width in boxes))
    assert widths == list(dict.fromkeys(5.0 * size for size in sizes))
    said = command("heatmap", "model", data, "-o", "map.html", "--downsample", "0.1").err
    assert "say with --downsample how many units of the coordinates a pixel is" in said


def test_a_file_per_bag_holds_probabilities_and_coordinates(command, tmp_path):
    h5py = pytest.importorskip("h5py")
    data, words = write_folder(tmp_path, "h5")
    command("fit", data, *words, "-o", "model", *QUICK, "-p", "background=true")
    features, coordinates, _ = make_bags()["slide_00"]
    for form in ("csv", "h5", "geojson"):
        said = command("predict", "model", data, "--to", form, "-o", form).out
        assert f"24 files written to {form}" in said
    with h5py.File(tmp_path / "h5/slide_00.h5") as file:
        probabilities = file["probabilities"][:]
        np.testing.assert_array_equal(file["coords"][:], coordinates)
        everything = np.c_[probabilities, file["background"][:]]
        np.testing.assert_allclose(everything.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(file["responsibilities"][:].sum(axis=0), 1, rtol=1e-5)
        classes = list(file.attrs["classes"])
        labels = [word.decode() for word in file["labels"][:]]
    assert labels == [[*classes, "background"][k] for k in everything.argmax(axis=1)]
    found = json.loads((tmp_path / "geojson/slide_00.geojson").read_text())["features"]
    assert len(found) == len(features)
    x, y = coordinates[1].tolist()
    corners = [[x, y], [x + 256, y], [x + 256, y + 256], [x, y + 256], [x, y]]
    assert found[1]["geometry"] == {"type": "Polygon", "coordinates": [corners]}
    assert found[1]["properties"]["classification"]["name"] == labels[1]
    told = found[1]["properties"]["measurements"][f"probability {classes[0]}"]
    assert told == pytest.approx(float(probabilities[1, 0]), abs=1e-5)
    header = (tmp_path / "csv/slide_00.csv").read_text().splitlines()[0]
    assert header.startswith("row,x,y,label,probability_benign")
    with h5py.File(tmp_path / "bags/slide_00.h5", "a") as file:  # as CLAM says it
        del file["coords"].attrs["patch_size_level0"]
        file["coords"].attrs.update({"patch_size": 256, "downsample": [2.0, 2.0]})
    command("predict", "model", data, "--to", "geojson", "-o", "overlapping")
    found = json.loads((tmp_path / "overlapping/slide_00.geojson").read_text())["features"]
    assert found[1]["geometry"]["coordinates"][0][2] == [x + 512, y + 512]


def test_what_cannot_be_drawn_is_one_sentence(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    command("fit", data, *words, "-o", "model", *QUICK)
    said = command("predict", "model", data, "--to", "geojson", "-o", "out", code=2).err
    assert "without coordinates" in said
    said = command("predict", "model", data, "--to", "xml", "-o", "out", code=2).err
    assert "--to must be one of 'csv', 'h5', 'geojson'" in said
    said = command("heatmap", "model", data, "-o", "map.png", code=2).err
    assert "--output must end in .html" in said
    (tmp_path / "others").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "others/stranger.png")
    said = command("heatmap", "model", data, "--sources", "others", code=2).err
    assert "no file of others is named as a bag" in said
    said = command("heatmap", "model", data, "-o", "some", "--max-bags", "1").out
    assert "written to some.html; mistakes come first, and --max-bags " in said
    assert "shows all" in (tmp_path / "some.html").read_text()
    command("heatmap", "model", data)  # objects in their order, where nothing says where they lie
    assert "object 0" in (tmp_path / "heatmap.html").read_text()


def test_overlapping_tiles_are_painted_in_their_middle():
    places = np.array([[x, y] for y in (0, 16) for x in (0, 16, 32)], dtype=float)
    grid = lay_on_grid(places, size=32)
    assert grid.box == (8.0, 8.0, 48.0, 32.0)
    painted = grid.paint(np.linspace(0, 1, 6))
    assert painted.shape == (2, 3, 4)
    assert painted[0, 0, 3] == MIN_OPACITY
    assert painted[1, 2, 3] == MAX_OPACITY


def test_a_timeline_takes_the_highest_of_what_overlaps():
    painted = paint_timeline(np.array([[0.0, 2.0], [1.0, 3.0]]), np.array([0.0, 1.0]), 3.0)
    assert painted[0, :, 3].tolist() == [MIN_OPACITY] * 200 + [MAX_OPACITY] * 400


def test_a_png_of_ours_is_read_as_it_was_written():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    with Image.open(io.BytesIO(encode_png(pixels))) as image:
        np.testing.assert_array_equal(np.asarray(image), pixels)
