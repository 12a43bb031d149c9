"""A folder with a file per bag and a table of labels is data to every command."""

import csv
import json
import shutil
import warnings

import numpy as np
import pytest

from bag_folders import FORMS, N_BAGS, WIDTH, make_bags, write_bag, write_folder, write_labels
from groupnoise.bags import read_bags
from groupnoise.exceptions import DataError

QUICK = ["-p", "max_epochs=3", "-p", "dim=8"]
N_OBJECTS = sum(len(features) for features, _, _ in make_bags().values())


def read_csv(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("form", FORMS)
def test_what_fit_reads_every_command_reads(command, tmp_path, form):
    pytest.importorskip("zarr" if "zarr" in form else "h5py")
    data, words = write_folder(tmp_path, form)
    described = json.loads(command("data", "describe", data, *words, "--json").out)
    assert described["facts"]["bags"] == N_BAGS
    assert described["facts"]["instances"] == N_OBJECTS
    assert described["facts"]["features"] == WIDTH
    command("fit", data, *words, "-o", "model", "-q", *QUICK)
    judged = json.loads(command("evaluate", "model", data, *words, "--json").out)
    assert judged["on"] == "held-out"
    assert json.loads(command("evaluate", "model", data, "--json").out) == judged
    command("predict", "model", data, "-o", "answers.csv")
    answers = read_csv(tmp_path / "answers.csv")
    assert len(answers) == N_OBJECTS
    assert {answer["bag"] for answer in answers} == set(make_bags())
    if form not in ("pt", "npy"):
        at = [(float(each["x"]), float(each["y"])) for each in answers[:2]]
        assert at == [(0, 512), (256, 512)]
    assert [answers[row]["row"] for row in range(3)] == ["0", "1", "2"]


def test_select_names_the_objects_that_carry_the_labels(command, tmp_path):
    bags = make_bags()
    data, words = write_folder(tmp_path, "npz", bags)
    command("fit", data, *words, "-o", "model", "-q", "-p", "max_epochs=40")
    command("select", "model", data, "-o", "witnesses.csv", "--top", "2")
    rows = read_csv(tmp_path / "witnesses.csv")
    assert len(rows) == 2 * N_BAGS
    right = 0
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        features, coordinates, label = bags[first["bag"]]
        assert (first["label"], first["rank"], second["rank"]) == (label, "1", "2")
        assert float(first["responsibility"]) >= float(second["responsibility"])
        assert float(first["x"]) == coordinates[int(first["row"]), 0]
        right += features[int(first["row"]), :2].max() > 3
    assert right > 0.8 * N_BAGS
    (tmp_path / "labels.csv").unlink()
    command("select", "model", data, "-o", "unlabelled.csv")
    assert {row["label"] for row in read_csv(tmp_path / "unlabelled.csv")} <= {"benign", "tumour"}


def test_calibrate_takes_what_was_held_out_and_changes_no_answer(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    command("fit", data, *words, "-o", "model", "-q", "--validation", "0.3", *QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        said = command("calibrate", "model", data, "-o", "calibrated")
    assert "7 bags held out of training" in said.out
    assert "; saved to calibrated" in said.out
    assert "probabilities of instances" in said.out
    assert "labels that change: 0 of 7 bags, 0 of" in said.out
    assert "warning: 7 bags to calibrate by: too few" in said.err
    from groupnoise import load_model

    plain, calibrated = (load_model(tmp_path / name) for name in ("model", "calibrated"))
    assert plain.calibration_temperature_ == 1.0
    is_taken = "are calibrated" in said.out
    assert (calibrated.calibration_temperature_ != 1.0) == is_taken
    assert ("groups: temperature" in command("info", "calibrated").out) == is_taken
    judged = [json.loads(command("evaluate", name, data, "--json").out)
              for name in ("model", "calibrated")]  # fmt: skip
    assert judged[0]["on"] == judged[1]["on"] == "held-out"
    command("fit", data, *words, "-o", "net", "-q", "--method", "mi-net", "-p", "max_epochs=1")
    said = command("calibrate", "net", data, "-o", "nothing", code=2).err
    assert "probabilities are not calibrated" in said


def test_an_audit_and_a_converted_folder_keep_what_was_read(command, tmp_path):
    bags = make_bags()
    data, words = write_folder(tmp_path, "npz", bags)
    patients = [f"p{number // 2}" for number in range(N_BAGS)]
    write_labels(tmp_path / "labels.csv", bags, patient_id=patients)
    command("audit", data, *words, "-o", "audit", "-q", "--folds", "2", *QUICK)
    assert (tmp_path / "audit/report.html").is_file()
    command("data", "convert", data, "stored", *words)
    from groupnoise.io.folders.data_folder import open_groups

    stored = open_groups(tmp_path / "stored")
    assert stored.patients.tolist() == patients
    assert stored.coordinate_names == ("x", "y")
    assert stored.coordinates.shape == (N_OBJECTS, 2)


def test_bags_of_a_patient_are_held_out_together_and_it_is_said(command, tmp_path):
    bags = make_bags()
    data, words = write_folder(tmp_path, "npy", bags)
    patients = [f"p{number // 4}" for number in range(N_BAGS)]
    write_labels(tmp_path / "labels.csv", bags, case_id=patients)
    for seed in range(3):
        said = command(
            "fit", data, *words, "-o", "model", "-q", "--seed", seed, "--validation", "0.3", *QUICK
        ).err
        assert "bags of each of the 6 patients stay together in every hold-out" in said
        held_out = json.loads((tmp_path / "model/manifest.json").read_text())["training_data"]
        rows = set(held_out["held_out"])
        assert 4 <= len(rows) <= 10
        assert all(rows >= {row // 4 * 4 + k for k in range(4)} for row in rows)


def test_a_split_column_says_what_is_held_out(command, tmp_path):
    bags = make_bags()
    data, words = write_folder(tmp_path, "npy", bags)
    split = ["Test" if number >= 20 else "train" for number in range(N_BAGS)]
    write_labels(tmp_path / "labels.csv", bags, split=split)
    said = command("fit", data, *words, "-o", "model", "-q", *QUICK).err
    assert "held out as column 'split' says (20 train, 4 test)" in said
    manifest = json.loads((tmp_path / "model/manifest.json").read_text())
    assert manifest["training_data"]["held_out"] == [20, 21, 22, 23]


def test_several_label_columns_and_a_table_inside_the_folder(command, tmp_path):
    bags = make_bags()
    data, _ = write_folder(tmp_path, "csv", bags)
    (tmp_path / "labels.csv").unlink()
    lines = ["file,class_a,class_b"]
    lines += [f"{bag}.svs,{n % 2},{1 - n % 2 or int(n == 3)}" for n, bag in enumerate(bags)]
    (tmp_path / "bags/labels.csv").write_text("\n".join(lines) + "\n")
    said = command("data", "describe", data, "--setting", "mil", code=2).err
    assert "or columns of 0 and 1, one per label, with commas or a pattern" in said
    described = json.loads(
        command("data", "describe", data, "--setting", "mil", "--label", "class_*", "--json")[0]
    )
    assert described["facts"]["classes"] == 2
    assert described["facts"]["labels per bag, mean"] == pytest.approx(1 + 1 / N_BAGS)


def test_many_features_are_mapped_from_disk_and_are_the_same(monkeypatch, tmp_path):
    from groupnoise.bags import read_bags
    from groupnoise.core import streamed_groups

    write_folder(tmp_path, "npy")
    plain = read_bags(tmp_path / "bags", labels=tmp_path / "labels.csv")
    monkeypatch.setattr(streamed_groups, "MAX_BYTES_IN_MEMORY", 0)
    mapped = read_bags(tmp_path / "bags", labels=tmp_path / "labels.csv")
    assert isinstance(mapped.bags.objects, np.memmap)
    np.testing.assert_array_equal(mapped.bags.objects, plain.bags.objects)


def test_features_that_no_disk_holds_are_refused_before_they_are_read(command, tmp_path):
    h5py = pytest.importorskip("h5py")
    write_folder(tmp_path, "npy")
    (tmp_path / "bags/slide_05.npy").unlink()
    with h5py.File(tmp_path / "bags/slide_05.h5", "w") as file:
        # Nothing of it is stored, and yet it says that it is there.
        file.create_dataset("features", shape=(10**12, WIDTH), dtype="f4", chunks=(1024, WIDTH))
    words = ["bags", "--setting", "mil", "--labels", "labels.csv"]
    said = command("fit", *words, "-o", "model", "-q", code=2).err
    assert "features of 24000.0 GB do not fit" in said


def _no_file(place):
    (place / "bags/slide_03.npy").unlink()


def _no_label(place):
    np.save(place / "bags/extra.npy", np.ones((2, WIDTH)))


def _other_width(place):
    np.save(place / "bags/slide_05.npy", np.ones((2, WIDTH + 1)))


def _missing_values(place):
    np.save(place / "bags/slide_05.npy", np.array([[1.0] * WIDTH, [np.nan] * WIDTH]))


def _empty(place):
    np.save(place / "bags/slide_05.npy", np.ones((0, WIDTH)))


def _pickled(place):
    import torch

    (place / "bags/slide_05.npy").unlink()
    torch.save({"features": np.ones((2, WIDTH)), "who": print}, place / "bags/slide_05.pt")


def _pickled_array(place):
    np.save(place / "bags/slide_05.npy", np.array([{}, 1], dtype=object), allow_pickle=True)


def _cut_off(place):
    pytest.importorskip("h5py")
    (place / "bags/slide_05.npy").unlink()
    write_bag(place / "bags/slide_05", "h5", np.ones((500, WIDTH)), np.ones((500, 2), int))
    file = place / "bags/slide_05.h5"
    file.write_bytes(file.read_bytes()[:3000])


def _cut_off_array(place):
    file = place / "bags/slide_05.npy"
    file.write_bytes(file.read_bytes()[:-3])


def _no_name(place):
    table = place / "labels.csv"
    table.write_text(table.read_text().replace("slide_05", ""))


def _text_alone(place):
    import torch

    (place / "bags/slide_05.npy").unlink()
    torch.save("hello", place / "bags/slide_05.pt")


def _cut_off_zarr(place):
    pytest.importorskip("zarr")
    (place / "bags/slide_05.npy").unlink()
    write_bag(place / "bags/slide_05", "zarr", np.ones((500, WIDTH)), np.ones((500, 2), int))
    for file in (place / "bags/slide_05.zarr").glob("*.json"):
        file.unlink()
    for file in (place / "bags/slide_05.zarr").glob(".z*"):
        file.unlink()


def _damaged_zarr(place):
    pytest.importorskip("zarr")
    (place / "bags/slide_05.npy").unlink()
    write_bag(place / "bags/slide_05", "zarr", np.ones((500, WIDTH)), np.ones((500, 2), int))
    shutil.rmtree(place / "bags/slide_05.zarr/coords")
    for file in (place / "bags/slide_05.zarr/features").rglob("*"):
        if file.is_file() and file.suffix != ".json" and not file.name.startswith("."):
            file.write_bytes(b"no chunk at all")


def _pickled_zarr(place):
    pytest.importorskip("zarr")
    (place / "bags/slide_05.npy").unlink()
    array = place / "bags/slide_05.zarr/features"
    array.mkdir(parents=True)
    (array.parent / ".zgroup").write_text('{"zarr_format": 2}')
    about = {
        "zarr_format": 2, "shape": [2, WIDTH], "chunks": [2, WIDTH], "dtype": "<f8", "order": "C",
        "fill_value": 0, "compressor": None, "filters": [{"id": "pickle", "protocol": 4}],
    }  # fmt: skip
    (array / ".zarray").write_text(json.dumps(about))
    (array / "0.0").write_bytes(b"cposix\nsystem\n(S'touch unpickled'\ntR.")


def _two_files(place):
    write_bag(place / "bags/slide_05", "npz", np.ones((2, WIDTH)), np.ones((2, 2)))


def _both_sides(place):
    split = ["test" if number >= 20 else "train" for number in range(N_BAGS)]
    patients = [f"p{number % 23}" for number in range(N_BAGS)]
    write_labels(place / "labels.csv", make_bags(), split=split, patient=patients)


def _twice(place):
    with (place / "labels.csv").open("a") as stream:
        stream.write("slide_05,tumour\n")


def _no_table(place):
    (place / "labels.csv").unlink()


def _two_encoders(place):
    for encoder in ("uni", "resnet"):
        (place / f"job/20x/features_{encoder}").mkdir(parents=True)
        (place / f"job/20x/features_{encoder}/slide_00.h5").touch()
    shutil.rmtree(place / "bags")
    (place / "job").rename(place / "bags")


def _no_folder(place):
    shutil.rmtree(place / "bags")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_no_folder, "there is no file or folder bags; check the path"),
        (_no_file, "labels.csv, line 5: bag 'slide_03' has no file in bags"),
        (_no_label, "bag 'extra' of bags has no row in labels.csv"),
        (_other_width, "bag 'slide_05' (bags/slide_05.npy) has 7 features, but bag 'slide_00'"),
        (_missing_values, "bag 'slide_05' (bags/slide_05.npy) holds NaN or infinite values in 1"),
        (_empty, "bag 'slide_05' (bags/slide_05.npy) is empty"),
        (_pickled, "bag 'slide_05' (bags/slide_05.pt) holds pickled objects"),
        (_pickled_array, "bag 'slide_05' (bags/slide_05.npy) holds pickled objects"),
        (_cut_off, "bag 'slide_05' (bags/slide_05.h5) is not a whole file"),
        (_cut_off_array, "bag 'slide_05' (bags/slide_05.npy) is not a whole file"),
        (_no_name, "labels.csv, line 7: column 'slide_id' is empty; write the name of the bag"),
        (_text_alone, "looks like the features; name it with `features` (--features). It holds no"),
        (_cut_off_zarr, "bag 'slide_05' (bags/slide_05.zarr) is not a whole file"),
        (_damaged_zarr, "bag 'slide_05' (bags/slide_05.zarr) is not a whole file"),
        (_pickled_zarr, "bag 'slide_05' (bags/slide_05.zarr) holds pickled objects"),
        (_two_files, "bag 'slide_05' has two files"),
        (_both_sides, "bag 'slide_23': patient 'p0' is on both sides of the split"),
        (_twice, "bag 'slide_05' has a row already"),
        (_two_encoders, "bags/20x/features_resnet, bags/20x/features_uni"),
        (_no_table, "there is no table of labels labels.csv"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_bad_input_is_one_sentence_with_the_name_of_the_bag(command, tmp_path, spoil, words):
    data, options = write_folder(tmp_path, "npy")
    spoil(tmp_path)
    said = command("fit", data, *options, "-o", "model", "-q", *QUICK, code=2).err
    assert words in said
    assert len(said.strip().splitlines()) == 1, said


def test_tensors_beside_a_number_and_sparse_ones_are_features(tmp_path):
    import torch

    write_folder(tmp_path, "npy")
    plain = read_bags(tmp_path / "bags", labels=tmp_path / "labels.csv")
    for number, file in enumerate(sorted((tmp_path / "bags").iterdir())):
        tensor = torch.from_numpy(np.load(file))
        file.unlink()
        kept = (tensor, 1) if number % 2 else tensor.to_sparse()
        torch.save(kept, file.with_suffix(".pt"))
    found = read_bags(tmp_path / "bags", labels=tmp_path / "labels.csv")
    np.testing.assert_array_equal(found.bags.objects, plain.bags.objects)


def test_a_table_of_labels_may_have_no_header(tmp_path):
    write_folder(tmp_path, "npy")
    labels = tmp_path / "labels.csv"
    plain = read_bags(tmp_path / "bags", labels=labels)
    labels.write_text("\n".join(labels.read_text().splitlines()[1:]) + "\n")
    said = []
    found = read_bags(tmp_path / "bags", labels=labels, report=said.append)
    np.testing.assert_array_equal(found.labels, plain.labels)
    assert f"{labels} has no header line: its first line names a bag" in said


def _as_people_keep_them(place, bags):
    """Bags in a folder of each patient, with what systems and people put beside them."""
    for number, (bag, (features, _, _)) in enumerate(bags.items()):
        folder = place / f"bags/Müller {number // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{bag}.npy", features)
        (folder / ".DS_Store").write_bytes(b"\0")
        (folder / f"._{bag}.npy").write_bytes(b"\0")
    (place / "bags/README.txt").write_text("read me")
    rows = [
        f"Müller {number // 2}\\{bag}.NPY;{label};{number},5"
        for number, (bag, (_, _, label)) in enumerate(bags.items())
    ]
    lines = ["Präparat;Diagnose;Alter", *rows, ""]
    (place / "bags/Labels.CSV").write_text("\n".join(lines), encoding="utf-8")


def test_folders_of_patients_with_a_readme_are_bags(command, tmp_path):
    _as_people_keep_them(tmp_path, make_bags())
    said = command("fit", "bags", "-o", "model", "-q", *QUICK).err
    assert "read as bags" in said
    assert "took 24 files in 12 folders below bags as the bags" in said
    assert "took column 'Präparat' as the bag" in said
    assert "took column 'Diagnose' as the label" in said
    command("predict", "model", "bags", "-o", "answers.csv")
    assert {answer["bag"] for answer in read_csv(tmp_path / "answers.csv")} == set(make_bags())


def test_labels_of_instances_of_torchmil_are_what_evaluate_scores_by(command, tmp_path):
    data, words = write_folder(tmp_path, "torchmil")
    truth = tmp_path / data / "inst_labels"
    truth.mkdir()
    for bag, (features, _, label) in make_bags().items():
        is_so = (features[:, 0] > 4) & (label == "tumour")
        np.save(truth / f"{bag}.npy", is_so.astype(np.float32)[:, None])
    described = command("data", "describe", data, *words).out
    assert "no instance label is known" not in described
    command("fit", data, *words, "-o", "model", "-q", "-p", "max_epochs=30")
    judged = json.loads(command("evaluate", "model", data, "--on", "all", "--json").out)
    assert judged["instance AUROC"] > 0.9
    shutil.copytree(tmp_path / data, tmp_path / "unlabelled")
    shutil.rmtree(tmp_path / "unlabelled/labels")
    command("predict", "model", "unlabelled", "-o", "answers.csv")
    np.save(truth / "slide_03.npy", np.zeros(99))
    said = command("data", "describe", data, *words, code=2).err
    assert "bag 'slide_03' has" in said
    assert "99 labels of them" in said
    (truth / "slide_03.npy").unlink()
    said = command("data", "describe", data, *words, code=2).err
    assert "bag 'slide_03' has no readable labels of its objects in" in said


@pytest.mark.parametrize("place", ["project", "project/features_of_slides"])
def test_tables_above_the_files_of_slides_are_no_bags(command, tmp_path, place):
    pytest.importorskip("h5py")
    bags = make_bags()
    folder = tmp_path / "project/features_of_slides"
    for part, form in (("h5_files", "h5"), ("pt_files", "pt")):
        (folder / part).mkdir(parents=True)
        for bag, (features, coordinates, _) in bags.items():
            write_bag(folder / part / bag, form, features, coordinates)
    write_labels(tmp_path / place / "cohort.csv", bags)
    if place != "project":  # the only table is found
        described = command("data", "describe", place, "--json")
        assert "cohort.csv as the table of labels" in described.err
        assert json.loads(described.out)["facts"]["bags"] == N_BAGS
    write_labels(tmp_path / place / "other.csv", bags)
    words = ["--labels", f"{place}/cohort.csv", "--json"]
    described = command("data", "describe", place, *words)
    assert json.loads(described.out)["facts"]["bags"] == N_BAGS
    assert "took column 'slide_id' as the bag" in described.err


def test_a_folder_with_labels_of_its_own_is_read_by_these_and_not_by_those_of_the_training(
    command, tmp_path
):
    data, words = write_folder(tmp_path, "npz")
    command("fit", data, *words, "-o", "model", "-q", "-p", "max_epochs=30")
    new = make_bags(30, seed=1)
    (tmp_path / "new").mkdir()
    for bag, (features, coordinates, _) in list(new.items())[:10]:
        write_bag(tmp_path / "new" / f"new_{bag}", "npz", features, coordinates)
    said = command("evaluate", "model", "new", code=2).err
    assert "new says no labels; give a table" in said
    assert "labels of the training do not fit: labels.csv, line 2: bag 'slide_00'" in said
    lines = [f"new_{bag},{label},P{bag}" for bag, (_, _, label) in list(new.items())[:10]]
    own = tmp_path / "new/labels.csv"
    own.write_text("\n".join(["image,diagnosis,patient", *lines]) + "\n")
    for words in (["evaluate"], ["select", "-o", "out.csv"], ["heatmap", "-o", "map.html"]):
        said = command(words[0], "model", "new", *words[1:])
        assert "took new/labels.csv as the table of labels" in said.err
        assert "took column 'diagnosis' as the label" in said.err
    assert "mistakes only" in (tmp_path / "map.html").read_text()
    (tmp_path / "labels.csv").unlink()  # that of the training
    assert "took new/labels.csv" in command("evaluate", "model", "new").err
    own.write_text(own.read_text() + lines[0] + "\n")
    said = command("select", "model", "new", "-o", "out.csv").err
    assert "labels are ignored: new/labels.csv, line 12: bag 'new_slide_00' has a row" in said


def test_a_plain_pickle_is_refused_in_one_sentence(command, tmp_path):
    import pickle

    data, words = write_folder(tmp_path, "pt")
    (tmp_path / data / "slide_05.pt").write_bytes(pickle.dumps(np.ones((2, WIDTH))))
    said = command("data", "describe", data, *words, code=2).err
    assert said.startswith("error: bag 'slide_05'")
    assert "never unpickled" in said


def test_names_of_bags_are_known_however_they_are_written(command, tmp_path):
    (tmp_path / "bags").mkdir()
    written = {"A\u0308pfel": "Äpfel", "Slide B": "slide b.svs", "007": "7"}
    bags = list(make_bags(3).values())
    for name, (features, _, _) in zip(written, bags, strict=True):
        np.save(tmp_path / f"bags/{name}.npy", features)
    labelled = dict(zip(written.values(), bags, strict=True))
    write_labels(tmp_path / "labels.csv", labelled)
    words = ["bags", "--labels", "labels.csv"]
    described = json.loads(command("data", "describe", *words, "--json").out)
    assert described["facts"]["bags"] == 3


def test_labels_written_as_other_numbers_are_those_of_the_model(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    table = tmp_path / "labels.csv"
    text = table.read_text()
    kinds = {
        "0": ("benign", "tumour"),
        "1": ("0", "1"),
        "2": ("0.0", "1.0"),
        "3": ("False", "True"),
    }
    found = []
    for name, (no, yes) in kinds.items():
        table.write_text(text.replace("benign", no).replace("tumour", yes))
        if name == "1":
            command("fit", data, *words, "-o", "model", "-q", *QUICK)
        if name > "0":
            found.append(command("evaluate", "model", data, "--on", "all", *words, "--json"))
    assert len({json.loads(each.out)["bag accuracy"] for each in found}) == 1
    assert "labels are read as the model spells them: '0.0' as '0'" in found[1].out


def test_missing_numbers_of_files_are_filled_with_the_medians_of_the_training(command, tmp_path):
    bags = make_bags()
    bags["slide_05"][0][1, 2] = np.nan
    data, words = write_folder(tmp_path, "npy", bags)
    words = [*words, "--fill", "median"]
    said = command("fit", data, *words, "-o", "model", "-q", *QUICK).err
    assert "filled 1 missing number in the column 'feature 2' with the median" in said
    for _, (features, _, _) in bags.items():
        features[...] += 100
    (tmp_path / "other").mkdir()
    write_folder(tmp_path / "other", "npy", bags)
    said = command("predict", "model", "other/bags", "-o", "answers.csv").err
    assert "filled 1 missing number in the column 'feature 2' as when the model was fitted" in said


def test_gaps_of_a_table_per_bag_are_filled_from_all_bags(command, tmp_path):
    data, words = write_folder(tmp_path, "csv")
    table = sorted((tmp_path / data).glob("*.csv"))[5]
    lines = table.read_text().splitlines()
    lines[2] = ",".join([*lines[2].split(",")[:-1], ""])
    table.write_text("\n".join(lines) + "\n")
    assert "numbers are missing" in command("fit", data, *words, "-o", "model", code=2).err
    words = [*words, "--fill", "median"]
    said = command("fit", data, *words, "-o", "model", "-q", *QUICK).err
    assert "filled 1 missing number in the column" in said
    said = command("predict", "model", data, "-o", "answers.csv").err
    assert "as when the model was fitted" in said


def test_features_in_other_units_than_those_of_the_training_are_told_of(command, tmp_path):
    bags = {name: (part[0] + 8, *part[1:]) for name, part in make_bags().items()}
    data, words = write_folder(tmp_path, "npy", bags)
    command("fit", data, *words, "-o", "model", "-q", *QUICK)
    for factor, is_told in ((1.0, False), (1000.0, True), (0.001, True)):
        place = tmp_path / str(factor)
        place.mkdir()
        others = make_bags(seed=1).items()
        write_folder(place, "npy", {n: ((part[0] + 8) * factor, *part[1:]) for n, part in others})
        said = command("predict", "model", f"{factor}/bags", "-o", f"{factor}.csv").err
        assert ("on another scale than those that model learned from" in said) == is_told


def test_a_folder_of_archives_without_labels_is_told_of_them(command, tmp_path):
    data, _ = write_folder(tmp_path, "npz")
    said = command("fit", data, "-o", "model", code=2).err
    assert "bags says no labels; give a table" in said


def write_by_folders(folder, form, places):
    """A file of a bag in each of these folders, in turn; returns the features of the last."""
    for number, place in enumerate(places):
        where = folder / place
        where.mkdir(parents=True, exist_ok=True)
        features = np.random.default_rng(number).normal(size=(4, 3)).astype(np.float32)
        features[0, int("tumour" in place)] += 6
        if form == "csv":
            np.savetxt(
                where / f"s{number}.csv", features, delimiter=",", header="a,b,c", comments=""
            )
        else:
            np.save(where / f"s{number}.npy", features)


@pytest.mark.parametrize("form", ["npy", "csv"])
def test_folders_called_by_labels_need_no_table(command, tmp_path, form):
    write_by_folders(tmp_path / "bags", form, ["tumour", "normal"] * 6)
    said = " ".join(command("fit", "bags", "-o", "model", "-q", *QUICK).err.split())
    assert "read as bags" in said
    assert "took the names of folders below bags as labels: normal (6), tumour (6)" in said
    assert "held out of training" in command("evaluate", "model", "bags").out
    # One new bag in a folder of a known label, and bags without any.
    write_by_folders(tmp_path / "one", "npy", ["tumour"])
    if form == "npy":
        assert "one: 1 bag" in command("evaluate", "model", "one").out
    write_by_folders(tmp_path / "new", form, [".", "."])
    command("predict", "model", "new", "-o", "answers.csv")
    assert (tmp_path / "answers.csv").read_text().count("\n") == 9


@pytest.mark.parametrize(
    ("places", "labels", "patients", "split"),
    [
        ([f"{'ab'[k % 2]}/p{k // 4}" for k in range(24)], "ab", 6, None),
        ([f"p{k // 4}/{'ab'[k % 2]}" for k in range(24)], "ab", 6, None),
        ([f"{['train', 'Test'][k > 17]}/{'ab'[k % 2]}" for k in range(24)], "ab", None, 18),
        ([f"all/{'ab'[k % 2]}" for k in range(24)], "ab", None, None),
        ([f"{k % 3}" for k in range(24)], "012", None, None),
        ([f"patient_{k % 3}" for k in range(24)], None, None, None),
        ([f"{k // 2}" for k in range(24)], None, None, None),
        ([["train", "test"][k % 2] for k in range(24)], None, None, None),
    ],
)
def test_which_folders_are_labels(tmp_path, places, labels, patients, split):
    write_by_folders(tmp_path, "npy", places)
    if labels is None:
        with pytest.raises(DataError, match="says no labels; give a table"):
            read_bags(tmp_path)
        return
    bags = read_bags(tmp_path)
    assert bags.class_names == list(labels)
    assert (None if bags.patients is None else len(set(bags.patients))) == patients
    assert (None if bags.split is None else int((bags.split == "train").sum())) == split


def test_a_bag_beside_folders_of_labels_is_named(tmp_path):
    write_by_folders(tmp_path, "npy", [".", *["a", "b"] * 6])
    with pytest.raises(DataError, match=r"called so, and s0\.npy beside them elsewhere"):
        read_bags(tmp_path)


@pytest.mark.parametrize("form", ["h5", "one_h5"])
def test_answers_go_into_the_files_that_the_features_come_from(command, tmp_path, form):
    import h5py

    data, words = write_folder(tmp_path, form)
    command("fit", data, *words, "-o", "model", "-q", *QUICK)
    command("predict", "model", data, "-o", "before.csv")
    for _ in range(2):  # answers of an earlier model give way
        said = command("predict", "model", data, "--to", "source").out
        assert f"of {data}, as group 'groupnoise'" in said
    command("predict", "model", data, "-o", "after.csv")
    assert (tmp_path / "after.csv").read_text() == (tmp_path / "before.csv").read_text()
    bag = next(iter(make_bags()))
    place = tmp_path / data / f"{bag}.h5" if form == "h5" else tmp_path / data
    with h5py.File(place) as file:
        node = file["groupnoise"] if form == "h5" else file[f"groupnoise/{bag}"]
        assert node["probabilities"].shape == (len(make_bags()[bag][0]), 2)
        assert sorted(node.attrs["classes"]) == ["benign", "tumour"]
    assert not list(tmp_path.rglob("*.tmp-*"))


def test_answers_go_into_no_other_files(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    command("fit", data, *words, "-o", "model", "-q", *QUICK)
    said = command("predict", "model", data, "--to", "source", code=2).err
    assert "no .h5 file, which answers could be written into" in said
    said = command("predict", "model", data, "--to", "source", "-o", "x", code=2).err
    assert "leave out --output" in said
    assert "needs the folder" in command("predict", "model", data, "--to", "csv", code=2).err
