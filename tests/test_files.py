from __future__ import annotations

import errno
import gzip
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ampere_energy import files
from ampere_energy.errors import FileError

AGAIN = "name a thing"


class Disk:
    """A disk on which one of the ways to it fails, at its n-th use: counted over all of them."""

    def __init__(self, patch: pytest.MonkeyPatch, fails_at: int, error: int = errno.ENOSPC) -> None:
        self.used, self._fails_at, self._error = 0, fails_at, error
        for name in ("put", "sync", "rename"):
            patch.setattr(files, name, self._counted(getattr(files, name), name == "put"))

    def _counted(self, way: Callable[..., int], some: bool) -> Callable[..., int]:
        def use(*arguments: object) -> int:
            self.used += 1
            if self.used == self._fails_at:
                if some:  # a disk that is nearly full takes a part first
                    file, data = arguments
                    os.write(file, data[: len(data) // 2])  # type: ignore[arg-type, index]
                raise OSError(self._error, os.strerror(self._error))
            return way(*arguments)

        return use


@pytest.fixture
def others(tmp_path: Path) -> Iterator[list[Path]]:
    """What has a name and is no file: a FIFO, a socket, a folder and an endless device."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(tmp_path)  # the names of sockets are short
        try:
            one.bind("socket")
        finally:
            os.chdir(here)
        yield [tmp_path / "fifo", tmp_path / "folder", tmp_path / "socket", Path("/dev/zero")]


@pytest.mark.timeout(20)
def test_only_files_are_read_and_written_and_nothing_else_is_waited_for(others: list[Path]) -> None:
    for path in others:
        before = stat.S_IFMT(path.stat().st_mode)
        for use in (
            lambda path: files.read(path, "thing", AGAIN),
            lambda path: files.read_appended(path, "thing", AGAIN, 100),
            lambda path: files.write(path, b"1", AGAIN),
            lambda path: files.append(path, b"1\n", AGAIN),
        ):
            with pytest.raises(FileError, match=r"\(it is a (FIFO|folder|socket|device)\); name a thing"):
                use(path)
        assert stat.S_IFMT(path.stat().st_mode) == before
        assert files.exists(path)
        assert not files.is_file(path)


def test_reading_is_bounded_also_where_gzip_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1001)
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"y" * 500) + gzip.compress(b"z" * 500))
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\0" * 2**26))
    assert files.read(tmp_path / "a", "thing", AGAIN, 1001) == b"x" * 1001
    assert files.read(tmp_path / "b.gz", "thing", AGAIN, 1000) == b"y" * 500 + b"z" * 500
    for name in ("a", "bomb.gz"):
        with pytest.raises(FileError, match=f"{name} is larger than any thing; is it the right file?"):
            files.read(tmp_path / name, "thing", AGAIN, 1000)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"y" * 500)[:-9])
    (tmp_path / "other.gz").write_bytes(b"plain")
    for name in ("cut.gz", "other.gz"):
        with pytest.raises(FileError, match=r"thing .* cannot be unpacked \(.+\); name a thing"):
            files.read(tmp_path / name, "thing", AGAIN)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    files.write(path, b"old")
    fails_at = 0
    while True:
        fails_at += 1
        with monkeypatch.context() as patch:
            disk = Disk(patch, fails_at)
            try:
                files.write(path, b"new")
            except FileError as error:
                assert "No space left on device); make room on the disk" in str(error)  # noqa: PT017 - each time
            else:
                break
        assert path.read_bytes() in ((b"old",) if fails_at < 4 else (b"old", b"new"))
        assert [p.name for p in tmp_path.iterdir()] == ["p.json"]
    assert disk.used == fails_at - 1 == 4  # bytes, their way to the disk, the name, its way to the disk
    assert path.read_bytes() == b"new"


def test_a_line_is_added_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    files.append(path, b"first\n")
    for fails_at in (1, 2):
        with monkeypatch.context() as patch:
            Disk(patch, fails_at)
            with pytest.raises(FileError, match="make room on the disk"):
                files.append(path, b"second\n")
        assert path.read_bytes() == b"first\n"
    files.append(path, b"third\n")
    assert path.read_bytes() == b"first\nthird\n"


def test_what_the_system_refuses_has_a_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long, under = tmp_path / ("x" * 300), tmp_path / "file" / "thing"
    (tmp_path / "file").write_text("")
    for use in (files.exists, files.is_file, files.size, lambda path: files.read(path, "thing", AGAIN)):
        with pytest.raises(FileError, match=r"\(File name too long\); give a shorter name"):
            use(long)
    with pytest.raises(FileError, match="give a shorter name"):
        files.write(long, b"")
    assert not files.exists(under)
    with pytest.raises(FileError, match=r"thing cannot be written \(.*\); name a thing"):
        files.write(under, b"", AGAIN)
    with pytest.raises(FileError, match=r"cannot be looked at .*; name another file"):
        files.exists(Path("a\0b"))
    for error, step in ((errno.EACCES, "check who may"), (errno.EROFS, "check who may"), (errno.EIO, AGAIN)):
        with monkeypatch.context() as patch:
            Disk(patch, 1, error)
            with pytest.raises(FileError, match=step):
                files.write(tmp_path / "new", b"1", AGAIN)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read all")
def test_an_unreadable_folder_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir(mode=0)
    for use in (
        lambda: files.listed(tmp_path / "hidden", "*"),
        lambda: files.within(tmp_path, "a"),
        lambda: files.exists(tmp_path / "hidden" / "a"),
    ):
        with pytest.raises(FileError, match="check who may read and write there"):
            use()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "p.json")
    files.write(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "p.json").read_bytes() == b"1"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(FileError, match="links"):
        files.write(tmp_path / "loop", b"1")


def test_text_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    files.write_text(tmp_path / "page", "± 5 % \udc80")
    assert (tmp_path / "page").read_bytes() == "± 5 % ?".encode()


def test_folders_are_listed(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "in" / "it").mkdir(parents=True)
    (tmp_path / "in" / "it" / "a.json").write_text("")
    assert [p.name for p in files.listed(tmp_path, "*.json")] == ["a.json", "b.json"]
    assert files.within(tmp_path, "a.json") == [tmp_path / "a.json", tmp_path / "in" / "it" / "a.json"]
    assert files.listed(tmp_path / "nowhere", "*") == files.within(tmp_path / "nowhere", "a") == []
