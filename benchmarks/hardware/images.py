"""Images with labels from local files: IDX, packed or not, as MNIST and its kin come; or folders, one a class.

    FOLDER/train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], t10k-images-…, t10k-labels-…
    FOLDER/train/CLASS/*.png|jpg, FOLDER/test/CLASS/*.png|jpg          (needs Pillow)

Nothing is ever downloaded.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from ampere_energy.errors import FileError

_SPLITS = {"train": "train", "test": "t10k"}
_KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_BYTES = 0x08


@dataclass(frozen=True, eq=False)
class Images:
    """Bytes (N, channels, height, width) and classes (N,)."""

    pictures: torch.Tensor
    labels: torch.Tensor

    def on(self, device: torch.device, size: int | None = None, channels: int | None = None) -> Images:
        """The same on a device, as numbers from −1 to 1; resized, and grey repeated over the channels, where asked."""
        found = self.pictures.to(device).float().div_(127.5).sub_(1)
        if size is not None and found.shape[-2:] != (size, size):
            found = functional.interpolate(found, (size, size), mode="bilinear", antialias=True)
        if channels is not None and found.shape[1] != channels:
            if found.shape[1] != 1:
                raise FileError(f"the images have {found.shape[1]} channels, not {channels}", "leave --channels out")
            found = found.expand(-1, channels, -1, -1)
        return Images(found.contiguous(), self.labels.to(device))


def load(folder: Path, split: str, size: int | None = None) -> Images:
    """The images of a folder; `split` is train or test. Those of a folder a class are brought to one size."""
    files = [_idx_file(folder, f"{_SPLITS[split]}-{what}-ubyte") for what in ("images-idx3", "labels-idx1")]
    if all(files):
        pictures, labels = (read_idx(file) for file in files if file is not None)
        if pictures.ndim != 3 or labels.shape != pictures.shape[:1]:
            raise FileError(f"{folder} has images of {pictures.shape} and labels of {labels.shape}", "get them again")
        return Images(torch.from_numpy(pictures)[:, None], torch.from_numpy(labels).long())
    if (folder / split).is_dir():
        return _from_classes(folder / split, size or 64)
    raise FileError(f"{folder} has neither {_SPLITS[split]}-images-idx3-ubyte nor a folder {split}", "name another")


def read_idx(path: Path) -> np.ndarray:
    """The bytes of an IDX file, in the shape it tells."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _BYTES:
        raise FileError(f"{path} is not an IDX file of bytes", "get it again")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if values.size != np.prod(shape):
        raise FileError(f"{path} has {values.size} bytes for a shape of {shape}", "get it again")
    return values.reshape(shape).copy()


def _idx_file(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _from_classes(folder: Path, size: int) -> Images:
    try:
        from PIL import Image
    except ImportError as error:
        raise FileError(f"{folder} holds image files, which need Pillow", "pip install pillow") from error
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    pictures, labels = [], []
    for label, own in enumerate(classes):
        for path in sorted(p for p in own.iterdir() if p.suffix.lower() in _KINDS):
            with Image.open(path) as picture:
                shown = picture.convert("RGB").resize((size, size))
                pictures.append(torch.from_numpy(np.asarray(shown).copy()).permute(2, 0, 1))
            labels.append(label)
    if not pictures:
        raise FileError(f"{folder} has no folder a class with images in it", "name another")
    return Images(torch.stack(pictures), torch.tensor(labels))
