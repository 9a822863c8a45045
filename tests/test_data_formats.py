"""The folder of formats is their registry: one more file is one more format, and every file keeps the contract."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

from tdinfonce.data import formats, open_dataset, read_record
from tdinfonce.errors import UserError

WALK = '''
"""One episode as text: a line for each state, two coordinates and one action."""

from pathlib import Path

import numpy as np

from tdinfonce.data.check import Raw, refuse

__all__ = ["READS", "accepts", "open", "record"]

READS = "a .walk file"


def accepts(path: Path) -> bool:
    return path.suffix == ".walk"


def open(path: Path, memory_limit: int) -> Raw:
    try:
        rows = np.loadtxt(path, np.float32, ndmin=2)
    except ValueError as error:
        raise refuse(str(path), "", f"is no walk ({error})") from error
    start, length = np.array([0]), np.array([len(rows) - 1])
    fields = ("position", "push", "position", "")
    return Raw(str(path), rows[:, :2], rows[:, 2:].copy(), None, start, length, None, fields, "line {}".format)


def record(path: Path) -> dict:
    return {"env": "hill"}
'''


@pytest.fixture
def walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a format of somebody else's, beside ours."""
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "walk.py").write_text(WALK)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "formats")])
    monkeypatch.delitem(sys.modules, "tdinfonce.data.formats.walk", raising=False)
    return tmp_path


def test_one_more_file_is_one_more_format(walks: Path) -> None:
    rows = np.array([[0, 0, 1], [1, 0, 0.5], [2, 1, -1], [3, 3, 0]], np.float32)
    np.savetxt(walks / "a.walk", rows)
    found = open_dataset(walks / "a.walk", goal="0:2")
    np.testing.assert_array_equal(found.episode(0).observation, rows[:, :2])
    np.testing.assert_array_equal(found.episode(0).action[:, 0], [1, 0.5, -1])
    assert read_record(str(walks / "a.walk")) == {"format": "walk", "env": "hill"}
    rows[2, 1] = np.nan
    np.savetxt(walks / "b.walk", rows)
    with pytest.raises(UserError, match=r"b\.walk: position, line 2: coordinate 1 is nan"):
        open_dataset(str(walks / "b.walk"), goal="0:2")
    with pytest.raises(UserError, match=r"an \.npz file; an \.npz file of OGBench's; a run folder; a \.walk file"):
        open_dataset("nothing-like-it")


@pytest.mark.parametrize("name", formats.names())
def test_every_format_keeps_the_contract(name: str, tmp_path: Path) -> None:
    module = formats.load(name)
    assert {"READS", "accepts", "open", "record"} <= set(module.__all__)
    assert [*inspect.signature(module.open).parameters] == ["path", "memory_limit"]
    assert module.READS
    assert not module.accepts(tmp_path)
    assert not module.accepts(tmp_path / "x.txt")


def test_what_nobody_reads_gets_all_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    for source, said in ((tmp_path / "x.txt", "is no data set"), (tmp_path / "y.txt", "there is no data set")):
        with pytest.raises(UserError, match=said) as caught:
            open_dataset(source)
        assert all(word in str(caught.value) for word in (".npz", ".hdf5", ".h5", "Minari", "run folder"))


def test_hdf5_names_the_keys_that_are_there(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["obs"], file["actions"], file["infos/goal"] = np.zeros((5, 2)), np.zeros((5, 1)), np.zeros((5, 2))
    with pytest.raises(UserError, match=r"observations: is missing; there is: actions, infos, obs$"):
        open_dataset(tmp_path / "a.h5", goal="0:2")


@pytest.mark.parametrize(
    ("source", "asked", "place"),
    [
        ("D4RL/pointmaze/umaze-v2", "D4RL/pointmaze/umaze-v2", "D4RL/pointmaze/umaze-v2"),
        ("hf://farama-minari/D4RL/door/human-v2", "hf://farama-minari/D4RL/door/human-v2", "D4RL/door/human-v2"),
    ],
)
def test_remote_ids_are_downloaded(
    source: str, asked: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")
    from dataset_files import some_episodes, write_minari_set

    downloads: list[str] = []

    def download(name: str) -> None:
        downloads.append(name)
        write_minari_set(tmp_path / place, some_episodes([4, 6]))

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setattr(minari, "download_dataset", download)
    assert open_dataset(source).length.tolist() == [4, 6]
    assert read_record(source)["format"] == "minari"
    assert downloads == [asked], "what is here is not downloaded again"


@pytest.mark.parametrize("without", ["minari", "huggingface_hub"])
def test_a_download_names_the_missing_extra(without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")

    def download(name: str) -> None:
        raise ImportError("huggingface_hub is not installed")

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setattr(minari, "download_dataset", download)
    if without == "minari":
        monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(
        UserError, match=r"there is no data set .*some/set-v0.*pip install 'tdinfonce\[offline\]'"
    ) as caught:
        open_dataset("some/set-v0")
    assert without in str(caught.value)
