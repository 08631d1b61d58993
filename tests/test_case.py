"""The case study in small: images from local files, models trained alike, joules of whole trainings."""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ampere_energy.errors import FileError, RequestError
from ampere_energy.model.training import Mode
from benchmarks.hardware import images, trainings
from benchmarks.pages import trainings as shown

PLAN = trainings.Plan(steps=60, batch=20, rate=0.2, checkpoints=3, warm_up_s=0.05)
pytestmark = pytest.mark.usefixtures("one_thread")


def write_idx(path: Path, values: np.ndarray) -> None:
    data = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 12×12 whose brighter half, left or right, is their class; half of the files packed."""
    place, draw = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name, count, packed in (("train", 200, ".gz"), ("t10k", 50, "")):
        labels = draw.integers(0, 2, count)
        pictures = draw.integers(0, 156, (count, 12, 12))
        for picture, label in zip(pictures, labels, strict=True):
            picture[:, 6 * label : 6 * label + 6] += 60
        write_idx(place / f"{name}-images-idx3-ubyte{packed}", pictures)
        write_idx(place / f"{name}-labels-idx1-ubyte{packed}", labels)
    return place


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(400, 2))


def large() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 48, 3), nn.ReLU(), nn.Conv2d(48, 48, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48 * 64, 2)
    )


def test_images_are_read_as_they_were_written(folder: Path) -> None:
    data, unseen = (images.load(folder, split) for split in ("train", "test"))
    assert data.pictures.shape == (200, 1, 12, 12)
    assert unseen.pictures.shape == (50, 1, 12, 12)
    assert data.labels.unique().tolist() == [0, 1]
    left = data.pictures[data.labels == 0].float()
    assert left[..., :6].mean() - left[..., 6:].mean() == pytest.approx(60, abs=3)
    there = data.on(torch.device("cpu"), size=24, channels=3)
    assert there.pictures.shape == (200, 3, 24, 24)
    assert -1 <= there.pictures.min() < there.pictures.max() <= 1


def test_broken_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="has neither train-images-idx3-ubyte nor a folder train"):
        images.load(tmp_path, "train")
    for data, told in (
        (b"PK", "is not an IDX file"),
        (b"\0\0\x08\x01\0\0\0\x09ab", r"has 2 bytes for a shape of \(9,\)"),
    ):
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(FileError, match=told):
            images.read_idx(tmp_path / "file")


def test_a_folder_a_class(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    for name, grey in (("cat", 10), ("dog", 200)):
        (tmp_path / "train" / name).mkdir(parents=True)
        pillow.new("RGB", (9, 7), (grey, grey, grey)).save(tmp_path / "train" / name / "one.png")
    found = images.load(tmp_path, "train", size=8)
    assert found.pictures.shape == (2, 3, 8, 8)
    assert found.pictures.float().mean((1, 2, 3)).tolist() == pytest.approx([10, 200])
    assert found.labels.tolist() == [0, 1]


def test_models_are_trained_alike_and_metered(folder: Path, tmp_path: Path) -> None:
    told: list[str] = []
    torch.save(small(), tmp_path / "pruned.pt")
    builders = {"original": large, "small": small, "pruned": trainings.builder_of(str(tmp_path / "pruned.pt"), ())}
    log = tmp_path / "log.jsonl"
    found = trainings.run(builders, folder, log, PLAN, meter="cputime:10", say=told.append)
    assert [one.model for one in found] == ["original", "small", "pruned"]
    for one in found:
        assert [point.step for point in one.curve] == [20, 40, 60]
        assert one.curve[-1].loss < one.curve[0].loss
        assert one.curve[-1].accuracy > 0.9
        assert one.meter.provenance == "modelled"
        assert 0 < one.energy_j <= 10.1 * one.time_s
    assert found[0].energy_j > 2 * found[1].energy_j
    assert found[0].parameters == sum(p.numel() for p in large().parameters())
    rows = shown.table(found).splitlines()
    assert rows[0].startswith("| model | parameters | steps | energy, modelled |")
    assert "| 100.0 % |" in rows[2]
    assert f"| {100 * found[1].energy_j / found[0].energy_j:.1f} % |" in rows[3]
    for name, figure in shown.figures(found).items():
        assert figure.count('data-series="small" data-x') == 3, name


def test_a_log_is_gone_on_with(folder: Path, tmp_path: Path) -> None:
    log, plan = tmp_path / "log.jsonl", replace(PLAN, steps=6)
    told: list[str] = []
    (first,) = trainings.run({"small": small}, folder, log, plan, meter="cputime:10", say=told.append)
    log.write_text(log.read_text() + '{"model": "cut sh')
    found = trainings.run(
        {"small": small, "other": small}, folder, log, plan, meter="cputime:10", seeds=2, say=told.append
    )
    assert found[0] == first
    assert [(one.model, one.plan.seed) for one in found] == [("small", 0), ("other", 0), ("small", 1), ("other", 1)]
    assert told[1] == "small, seed 0: in the log already"
    assert found[0].curve == found[1].curve  # the same weights, batches and order
    assert found[0].curve != found[2].curve
    with pytest.raises(RequestError, match="choose another log"):
        trainings.run({"small": small}, folder, log, plan, meter="cputime:11")


def test_bad_plans() -> None:
    with pytest.raises(RequestError, match="2 steps of 8 with 3 checkpoints"):
        trainings.Plan(steps=2, batch=8, checkpoints=3)
    with pytest.raises(RequestError, match="--mode compile"):
        trainings.Plan(mode=Mode.COMPILE)


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(tmp_path / "log.jsonl")
    settings = ["--steps=4", "--batch=10", "--checkpoints=2", "--warm-up-s=0", "--size=28", "--meter=cputime:10"]
    trainings.main([str(folder), log, "--model", "one=lenet5", "--model", "two=lenet5@3,8,60,42", *settings])
    shown.main(Path(log), tmp_path / "figures")
    out = capsys.readouterr().out
    assert out.count("| one | 61,706 | 4 |") == 1
    assert out.count("| two | 15,738 | 4 |") == 1
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"loss.svg", "accuracy.svg"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_training_of_cuda_graphs_learns_as_an_eager_one_does(folder: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, steps=2000)
    curves = [
        trainings.run({"large": large}, folder, tmp_path / "log.jsonl", replace(plan, mode=mode), device="cuda")[0]
        for mode in (Mode.EAGER, Mode.GRAPH)
    ]
    for found in curves:
        assert found.meter.provenance == "measured"
        assert found.curve[-1].accuracy > 0.9
    assert curves[1].energy_j < 1.1 * curves[0].energy_j
