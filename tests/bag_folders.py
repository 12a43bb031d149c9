"""Small folders of bags in every form: a file per bag, a table of labels, coordinates."""

import csv
from pathlib import Path

import numpy as np

N_BAGS = 24
WIDTH = 6
FORMS = (
    "h5", "clam", "trident", "one_h5", "pt", "pt_dict", "npy", "npz", "csv", "float16", "torchmil",
    "zarr", "one_zarr",
)  # fmt: skip


def make_bags(n_bags=N_BAGS, seed=0):
    """Ids, features, coordinates and labels; one object of each bag carries its label."""
    generator = np.random.default_rng(seed)
    bags = {}
    for number in range(n_bags):
        size = int(generator.integers(3, 8))
        features = generator.normal(size=(size, WIDTH)).astype(np.float32)
        label = ("benign", "tumour")[number % 2]
        features[int(generator.integers(size)), 0 if label == "tumour" else 1] += 6
        coordinates = np.stack([256 * np.arange(size), np.full(size, 512)], axis=1)
        bags[f"slide_{number:02d}"] = (features, coordinates, label)
    return bags


def write_labels(path: Path, bags, **columns):
    """A table with one row per bag; further columns are given as a list each."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["slide_id", *columns, "label"])
        for row, (bag, (_, _, label)) in enumerate(bags.items()):
            writer.writerow([bag, *(cells[row] for cells in columns.values()), label])


def write_bag(path: Path, form: str, features, coordinates):
    """One file of one bag."""
    if form in ("h5", "float16"):
        import h5py

        with h5py.File(path.with_suffix(".h5"), "w") as file:
            # TRIDENT writes the features of a slide with a leading axis of one in some releases.
            kept = features.astype(np.float16) if form == "float16" else features[None]
            file["features"], file["coords"] = kept, coordinates
            file["coords"].attrs["patch_size_level0"] = 256
    elif form == "zarr":
        write_zarr(path.with_suffix(".zarr"), {"": (features.astype(np.float16), coordinates)})
    elif form in ("pt", "pt_dict"):
        import torch

        tensor = torch.from_numpy(features)
        whole = {"features": tensor.bfloat16(), "coords": torch.from_numpy(coordinates)}
        alone = [row.clone() for row in tensor] if len(tensor) % 2 else tensor  # both are met
        torch.save(alone if form == "pt" else whole, path.with_suffix(".pt"))
    elif form == "npy":
        np.save(path.with_suffix(".npy"), features)
    elif form == "npz":
        np.savez(path.with_suffix(".npz"), features=features, coords=coordinates)
    elif form == "csv":
        header = ",".join(["x", "y", *(f"f{k}" for k in range(features.shape[1]))])
        table = np.hstack([coordinates, features])
        np.savetxt(
            path.with_suffix(".csv"), table, delimiter=",", header=header, comments="", fmt="%.6f"
        )
    else:
        raise ValueError(form)


def write_zarr(path: Path, bags):
    """A .zarr folder with a group per bag; the group "" is the folder itself."""
    import zarr

    root = zarr.open_group(str(path), mode="w")
    for bag, arrays in bags.items():
        group = root.create_group(bag) if bag else root
        for name, values in zip(("features", "coords"), arrays, strict=True):
            group[name] = values


def write_folder(place: Path, form: str, bags=None) -> tuple[str, list[str]]:
    """Write bags below `place`; return what to give as DATA and the options beside it."""
    bags = make_bags() if bags is None else bags
    labels = place / "labels.csv"
    write_labels(labels, bags)
    words = ["--setting", "mil", "--labels", labels.name]
    if form == "one_h5":
        import h5py

        with h5py.File(place / "bags.h5", "w") as file:
            for bag, (features, coordinates, _) in bags.items():
                file[f"{bag}/features"], file[f"{bag}/coords"] = features, coordinates
        return "bags.h5", words
    if form == "one_zarr":
        write_zarr(place / "bags.zarr", {bag: each[:2] for bag, each in bags.items()})
        return "bags.zarr", words
    if form == "torchmil":
        for part in ("features", "coords", "labels"):
            (place / "bags" / part).mkdir(parents=True)
        for bag, (features, coordinates, label) in bags.items():
            np.save(place / f"bags/features/{bag}.npy", features)
            np.save(place / f"bags/coords/{bag}.npy", coordinates)
            np.save(place / f"bags/labels/{bag}.npy", np.array(int(label == "tumour")))
        return "bags", words[:2]
    if form == "trident":
        features_of_job = place / "bags/20x_256px_0px_overlap/features_uni_v1"
        features_of_job.mkdir(parents=True)
        for bag, (features, coordinates, _) in bags.items():
            write_bag(features_of_job / bag, "h5", features, coordinates)
        return "bags", words
    if form == "clam":
        for part in ("h5_files", "pt_files"):
            (place / "bags" / part).mkdir(parents=True)
        for bag, (features, coordinates, _) in bags.items():
            write_bag(place / "bags/h5_files" / bag, "h5", features, coordinates)
            write_bag(place / "bags/pt_files" / bag, "pt", features, coordinates)
        return "bags", words
    (place / "bags").mkdir()
    for bag, (features, coordinates, _) in bags.items():
        write_bag(place / "bags" / bag, form, features, coordinates)
    return "bags", words
