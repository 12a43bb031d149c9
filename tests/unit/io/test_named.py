"""Loading data sets by name, from real files where they are there."""

import numpy as np
import pytest

from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.io import BagDataset, ClickDataset, PartialLabelDataset, list_datasets, load_dataset

BAGS = {  # bags, instances, features, classes
    "sival25": (1499, 47355, 30, 25),
    "hja-birdsong": (548, 10232, 38, 13),
    "spambase-bags": (1114, 3342, 57, 2),
    "natural-scene": (1543, 13887, 15, 5),
    "musk1": (92, 476, 166, 2),
    "musk2": (102, 6598, 166, 2),
    "elephant": (200, 1391, 230, 2),
    "fox": (200, 1320, 230, 2),
    "tiger": (200, 1220, 230, 2),
    "ucsb-breast": (58, 2002, 708, 2),
    "letter-nonsense": (127, 560, 16, 26),
    "letter-walk": (145, 566, 16, 26),
}
CANDIDATES = {  # rows, features, classes, candidates per row
    "lost": (1122, 108, 16, 2.2317),
    "msrcv2": (1758, 48, 23, 3.1564),
    "birdsong": (4998, 38, 13, 2.1755),
    "fg-net": (1002, 262, 78, 7.4770),
}
CLICKS = {  # users, clicks, items
    "amazon-video-games": (31013, 287107, 23715),
    "amazon-beauty-bert4rec": (40226, 353962, 54542),
    "amazon-beauty-5core": (22363, 198502, 12101),
    "amazon-toys-and-games-5core": (19412, 167597, 11924),
    "amazon-office-2018": (3231, 22447, 3317),
    "movietweetings": (4333, 68055, 2414),
    "movietweetings-100k": (16554, 100000, 10506),
}


def load(name, data_directory):
    try:
        return load_dataset(name, data_dir=data_directory)
    except MissingDataError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", BAGS)
def test_bags_have_the_published_counts(name, data_directory):
    dataset = load(name, data_directory)
    shape = (*dataset.bags.objects.shape, dataset.labels.shape[1])
    assert (len(dataset.bags), *shape) == BAGS[name]
    assert dataset.labels.shape == (len(dataset.bags), len(dataset.class_names))
    assert dataset.labels.any(axis=1).all()


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidate_labels_have_the_published_counts_and_hold_the_truth(name, data_directory):
    dataset = load(name, data_directory)
    n_rows, n_features, n_classes, mean = CANDIDATES[name]
    assert dataset.features.shape == (n_rows, n_features)
    assert dataset.candidates.shape == (n_rows, n_classes)
    assert dataset.candidates.sum(axis=1).mean() == pytest.approx(mean, abs=1e-4)
    assert dataset.candidates[np.arange(n_rows), dataset.truth].all()


@pytest.mark.parametrize("name", CLICKS)
def test_clicks_have_the_published_counts(name, data_directory):
    dataset = load(name, data_directory)
    assert (len(dataset.histories), dataset.histories.n_objects, dataset.n_items) == CLICKS[name]
    assert len(dataset.user_ids) == len(dataset.histories)


def test_hja_instances_belong_to_their_bags_labels(data_directory):
    dataset = load("hja-birdsong", data_directory)
    labelled = np.flatnonzero(dataset.instance_labels >= 0)
    bags = dataset.bags.group_of_object[labelled]
    assert len(labelled) == 4998
    assert dataset.labels[bags, dataset.instance_labels[labelled]].all()


def test_titles_stand_beside_their_items(data_directory):
    beauty = load("amazon-beauty-5core", data_directory)
    assert beauty.titles[list(beauty.item_ids).index(1)].startswith("OPI Nail Lacquer")
    assert sum(bool(title) for title in beauty.titles) == 12094
    movies = load("movietweetings-100k", data_directory)
    assert movies.titles[list(movies.item_ids).index("0004936")] == "The Bank (1915)"


def test_a_user_sees_movies_in_order_of_time(tmp_path):
    folder = tmp_path / "rs"
    folder.mkdir()
    (folder / "movietweetings_100k_ratings.dat").write_text(
        "7::0011::8::300\n7::0010::8::100\n3::0011::2::900\n"
    )
    dataset = load_dataset("movietweetings-100k", data_dir=tmp_path, verify=False)
    assert dataset.user_ids.tolist() == [3, 7]
    assert dataset.item_ids[dataset.histories[1]].tolist() == ["0010", "0011"]


@pytest.mark.parametrize("name", ["digit-bags", "digit-candidates", "shop", "sival-like"])
def test_shipped_sets_need_no_file(name, nowhere):
    kinds = {"mil": BagDataset, "pll": PartialLabelDataset, "rs": ClickDataset}
    entry = next(entry for entry in list_datasets() if entry.name == name)
    assert isinstance(load_dataset(name), kinds[entry.setting])


@pytest.mark.parametrize(
    ("name", "file", "content", "sentence"),
    [
        ("video", "rs/amazon_video_games_sasrec.txt", b"1 2\n3\n", "two whole numbers per line"),
        ("video", "rs/amazon_video_games_sasrec.txt.gz", b"\x1f\x8b", "cannot be read"),
        ("musk1", "mil/musk1.npz", b"PK\x03\x04", "not a complete .npz archive"),
        ("lost", "pll/lost.mat", b"MATLAB 5.0", "not a whole MATLAB file"),
        (
            "movietweetings-100k",
            "rs/movietweetings_100k_ratings.dat",
            b"1::2\n3",
            "not of the form",
        ),
        ("letter-walk", "mil/letter_recognition.csv", b"Letter,1\nA,x\n", "not of the form"),
        ("letter-walk", "mil/letter_recognition.csv", b"", "is empty"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, file, content, sentence):
    path = tmp_path / file
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DataError, match=sentence) as caught:
        load_dataset(name, data_dir=tmp_path, verify=False)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("turned", [False, True])
def test_label_arrays_are_read_along_either_axis(tmp_path, turned):
    from scipy.io import savemat

    candidates = np.array([[1, 1, 0], [0, 1, 1]])
    target = np.array([[1, 0, 0], [0, 0, 1]])
    arrays = {"data": np.eye(2), "partial_target": candidates, "target": target}
    if turned:
        arrays |= {"partial_target": candidates.T, "target": target.T}
    (tmp_path / "pll").mkdir()
    savemat(tmp_path / "pll" / "lost.mat", arrays)
    dataset = load_dataset("lost", data_dir=tmp_path, verify=False)
    np.testing.assert_array_equal(dataset.candidates, candidates.astype(bool))
    assert dataset.truth.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"data": np.eye(2)}, "no array that looks like the candidates"),
        (
            {"data": np.eye(2), "target": np.eye(3), "partial_target": np.eye(3)},
            r"shape \(3, 3\) does not fit 2 feature rows",
        ),
    ],
)
def test_a_mat_file_with_other_arrays_is_refused(tmp_path, arrays, sentence):
    from scipy.io import savemat

    (tmp_path / "pll").mkdir()
    savemat(tmp_path / "pll" / "lost.mat", arrays)
    with pytest.raises(DataError, match=sentence):
        load_dataset("lost", data_dir=tmp_path, verify=False)


def test_an_archive_with_other_arrays_is_refused(tmp_path):
    (tmp_path / "mil").mkdir()
    np.savez(tmp_path / "mil" / "musk1.npz", X=np.eye(2))
    with pytest.raises(DataError, match="not of the form in which Musk 1 comes"):
        load_dataset("musk1", data_dir=tmp_path, verify=False)
