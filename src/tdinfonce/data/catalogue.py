"""The data sets on this machine, and where a new one goes: Minari's folder."""

from pathlib import Path
from typing import Any

from tdinfonce.data.formats.minari import data_folder, is_minari_id, minari_root, read_metadata
from tdinfonce.errors import UserError

__all__ = ["is_here", "list_datasets", "place"]


def is_here(dataset_id: str) -> bool:
    """Whether the data set of this id need not be downloaded or made."""
    return data_folder(minari_root() / dataset_id) is not None


def place(out: str | Path) -> tuple[Path, str]:
    """Folder and id of a new data set; one that is named by an id lies where Minari looks for it."""
    if is_minari_id(str(out)) and not Path(out).exists():
        return minari_root() / out, str(out)
    folder = Path(out).expanduser().resolve()
    if folder.is_file():
        raise UserError(f"{folder} is a file; out must be a folder or a Minari id")
    return folder, f"tdinfonce/{folder.name if is_minari_id(folder.name) else f'{folder.name}-v0'}"


def list_datasets() -> tuple[Path, dict[str, dict[str, Any] | None]]:
    """Minari's folder, and the data sets in it: id and metadata, which are None where they are malformed."""
    root, found = minari_root(), {}
    for file in sorted(root.rglob("data/metadata.json")):
        try:
            described: dict[str, Any] | None = read_metadata(file.parent)
        except UserError:
            described = None
        found[file.parent.parent.relative_to(root).as_posix()] = described
    return root, found
