"""Every file that the package reads or writes: regular files only, bounded, whole or not at all.

A FIFO, a device, a socket or a folder is refused at once and never waited for. Reading is bounded, also while gzip is
unpacked. What is written is there whole or not at all, and nothing stays beside it. Text is UTF-8. What the system
refuses is a `FileError` with the next step. Only the counters of the kernel are read elsewhere, by the meters.

`put`, `sync` and `rename` are the only ways to the disk: a test that replaces them has a disk that is full.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from io import BufferedReader
from pathlib import Path

from ampere_energy.errors import FileError

LARGEST_BYTES = 2**25
_CHUNK = 2**20
_ELSEWHERE = "check who may read and write there, or name another place"
_ROOM = "make room on the disk, then run this again"
_NEXT = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
    errno.EROFS: _ELSEWHERE,
    errno.EMFILE: "let this process open more files: ulimit -n",
    errno.ELOOP: "name the file that the links should lead to",
}
_SORTS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def put(file: int, data: memoryview) -> int:
    """Writes some of the bytes; says how many."""
    return os.write(file, data)


def sync(file: int) -> None:
    """Returns when what was written is on the disk."""
    os.fsync(file)


def rename(old: Path, new: Path) -> None:
    """Gives a file its name, in place of what had it."""
    old.replace(new)


def refusal(what: str, error: Exception, remedy: str = "name another file") -> FileError:
    """What the system refused, in words; the remedy is for what it did not say enough of."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return FileError(f"{what} ({why})", _NEXT.get(getattr(error, "errno", None) or 0, remedy))


def exists(path: Path) -> bool:
    """Whether a name is taken, by whatever it is; a folder that hides it is an error."""
    return _status(path) is not None


def is_file(path: Path) -> bool:
    """Whether there is a file that can be read as one."""
    found = _status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_folder(path: Path) -> bool:
    """Whether there is a folder."""
    found = _status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def size(path: Path) -> int:
    """A file's bytes; 0 where there is none."""
    found = _status(path)
    return found.st_size if found is not None else 0


def changed(path: Path) -> int:
    """When a file was changed last, in nanoseconds; 0 where there is none."""
    found = _status(path)
    return found.st_mtime_ns if found is not None else 0


def listed(folder: Path, pattern: str) -> list[Path]:
    """What a folder has of names like `*.json`, sorted; nothing where there is no such folder."""
    if not exists(folder):
        return []
    try:
        return sorted(path for path in folder.iterdir() if fnmatch(path.name, pattern))
    except OSError as error:
        raise refusal(f"{folder} cannot be listed", error, "name another folder") from error


def within(folder: Path, name: str) -> list[Path]:
    """The files of a name in a folder and in the folders of it, sorted."""

    def stop(error: OSError) -> None:
        raise error

    if not exists(folder):
        return []
    try:
        return sorted(Path(place) / name for place, _, files in os.walk(folder, onerror=stop) if name in files)
    except OSError as error:
        raise refusal(f"{folder} cannot be listed", error, "name another folder") from error


def handle(path: Path, flags: int, what: str, remedy: str) -> int:
    """A regular file, opened; nothing else is even opened, and what takes its place meanwhile is not waited for."""
    if (found := _status(path)) is not None:
        _refuse_others(found, what, remedy)
    try:
        file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except (OSError, ValueError) as error:
        raise refusal(what, error, remedy) from error
    try:
        _refuse_others(os.fstat(file), what, remedy)
    except FileError:
        os.close(file)
        raise
    return file


@contextlib.contextmanager
def opened(path: Path, sort: str, remedy: str) -> Iterator[BufferedReader]:
    """A file to be read, by a reader that bounds what it takes; `sort` says what it should be, such as a profile."""
    what = f"{sort} {path} cannot be read"
    try:
        with os.fdopen(handle(path, os.O_RDONLY, what, remedy), "rb") as file:
            yield file
    except OSError as error:
        raise refusal(what, error, remedy) from error


def read(path: Path, sort: str, remedy: str, most: int = LARGEST_BYTES) -> bytes:
    """A file's bytes, unpacked where its name ends in `.gz`; a file of more bytes than `most` is refused."""
    with opened(path, sort, remedy) as file:
        if path.suffix == ".gz":
            try:
                with gzip.GzipFile(fileobj=file) as packed:
                    data = _bounded(packed.read, most)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise refusal(f"{sort} {path} cannot be unpacked", error, remedy) from error
        else:
            data = _bounded(file.read, most)
    if len(data) > most:
        raise FileError(f"{sort} {path} is larger than any {sort}", "is it the right file?")
    return data


def write(path: Path, data: bytes, remedy: str = "choose another --out") -> None:
    """Writes a file: after a crash or a failure the old one is there or the new one, and nothing beside it."""
    what = f"{path} cannot be written"
    try:
        place = Path(os.path.realpath(path))  # a link stays a link, to a file that is new
        if (found := _status(place)) is not None:
            _refuse_others(found, what, remedy)
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".ampere-{os.getpid()}-{os.urandom(4).hex()}")
        try:
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                put_all(file, data)
                sync(file)
            finally:
                os.close(file)
            rename(beside, place)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync_folder(place.parent)
    except (OSError, ValueError) as error:
        raise refusal(what, error, remedy) from error


def write_text(path: Path, text: str, remedy: str = "choose another --out") -> None:
    """Writes a file of text; what is no text, such as half of a file's odd name, is a question mark."""
    write(path, text.encode(errors="replace"), remedy)


@contextlib.contextmanager
def _locked(path: Path, flags: int, lock: int, what: str, remedy: str) -> Iterator[int]:
    """A file, locked while it is written or read."""
    try:
        if flags & os.O_CREAT:
            path.parent.mkdir(parents=True, exist_ok=True)
        file = handle(path, flags, what, remedy)
        try:
            fcntl.flock(file, lock)
            yield file
        finally:
            os.close(file)
    except OSError as error:
        raise refusal(what, error, remedy) from error


def append(path: Path, line: bytes, remedy: str = "choose another --out") -> None:
    """Adds a line to a file; when this returns, it is on the disk.

    What a crash left of a last line is cut off first; what could not be written whole is taken back.
    """
    with _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, f"{path} cannot be written", remedy) as file:
        end = _complete_length(file)
        if end != os.fstat(file).st_size:
            os.ftruncate(file, end)
        os.lseek(file, end, os.SEEK_SET)
        try:
            put_all(file, line)
            sync(file)
        except OSError:
            os.ftruncate(file, end)
            raise
        if end == 0:
            _sync_folder(path.parent)


def read_appended(path: Path, sort: str, remedy: str, most: int) -> bytes:
    """The bytes of a file that others may be appending to: never half of a line that is just being written."""
    with _locked(path, os.O_RDONLY, fcntl.LOCK_SH, f"{sort} {path} cannot be read", remedy) as file:
        data = _bounded(lambda count: os.read(file, count), most)
    if len(data) > most:
        raise FileError(f"{sort} {path} is larger than any {sort}", "is it the right file?")
    return data


def put_all(file: int, data: bytes) -> None:
    """Writes all of the bytes."""
    rest = memoryview(data)
    while rest:
        rest = rest[put(file, rest) :]


def remove(path: Path) -> None:
    """Takes a file away, where there is one."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise refusal(f"{path} cannot be removed", error) from error


def move(old: Path, new: Path) -> None:
    """Gives a file another name."""
    try:
        rename(old, new)
        _sync_folder(new.parent)
    except OSError as error:
        raise refusal(f"{old} cannot be renamed to {new.name}", error) from error


def _refuse_others(found: os.stat_result, what: str, remedy: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{what} (it is {_SORTS.get(stat.S_IFMT(found.st_mode), 'no file')})", remedy)


def _status(path: Path) -> os.stat_result | None:
    """What a name means; None where nothing has it."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise refusal(f"{path} cannot be looked at", error) from error


def _bounded(take: Callable[[int], bytes], most: int) -> bytes:
    """What can be read, or a little more than `most`."""
    found = bytearray()
    while len(found) <= most and (chunk := take(_CHUNK)):
        found += chunk
    return bytes(found)


def _complete_length(file: int) -> int:
    """Bytes up to and including the last line break."""
    end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - 65536)
        at = os.pread(file, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    """Returns when a folder's names are on the disk."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(file)
    finally:
        os.close(file)
