"""One command a log: whoever reads a log, measures and saves what it gave holds the log's lock meanwhile.

The lock is a file beside the log that the system locks for as long as the process lives, so that one whose holder was
killed is free. In it stands who holds it: a lock of another host, which this one cannot ask, is never taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ampere_energy import files
from ampere_energy.errors import FileError
from ampere_energy.serialization import decode, encode, parse_json

_LONGEST = 4096
_NEAR = "keep it on a disk of this machine"
_HELD: set[tuple[Path, int, int]] = set()
"""What each thread of each process holds: it may ask again for what it has."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def lock_path(log: Path) -> Path:
    """The file that is locked where the log is in use."""
    return log.with_name(f"{log.name}.lock")


@contextlib.contextmanager
def held(log: Path, wait: bool = False) -> Iterator[None]:
    """Holds a log; where another process does, this is refused, or waits for it to end.

    Raises:
        FileError: another process has the log, or one of another host had it last.
    """
    own = lock_path(Path(os.path.realpath(log))), os.getpid(), threading.get_ident()
    if own in _HELD:
        yield
        return
    place = own[0]
    with _folders(place.parent, log):
        try:
            file = _taken(place, log, wait)
        except OSError as error:
            raise files.refusal(f"{log} cannot be locked", error, _NEAR) from error
        _HELD.add(own)
        try:
            yield
        finally:
            _HELD.discard(own)
            with contextlib.suppress(OSError):
                place.unlink()  # before it is free: whoever waits for this file sees that it is no longer the lock
            os.close(file)


@contextlib.contextmanager
def _folders(folder: Path, log: Path) -> Iterator[None]:
    """Makes the folders of a lock, and takes them away again where nothing came into them."""
    made = [place for place in (folder, *folder.parents) if not files.exists(place)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.refusal(f"{log} cannot be locked", error, _NEAR) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # something is in it
            for place in made:
                place.rmdir()


def _taken(place: Path, log: Path, wait: bool) -> int:
    """The lock's file, locked by this process and with its name in it."""
    told = False
    while True:
        file = files.handle(place, os.O_RDWR | os.O_CREAT, f"{log} cannot be locked", "remove its lock")
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = _holder(file) or "another process"
                if not wait:
                    raise FileError(f"{log} is in use by {who}", "wait for it with --wait, or end it") from None
                if not told:
                    warnings.warn(f"{log} is in use by {who}: waiting for it", stacklevel=2)
                told = True
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_still(file, place):
                before = _holder(file)
                if before is not None and before.host != platform.node():
                    raise FileError(f"{log} is in use by {before}", f"end it there, or if it has ended remove {place}")
                _sign(file, place)
                return file
            os.close(file)  # whoever had it took it away
        except BaseException:
            os.close(file)
            raise


def _is_still(file: int, place: Path) -> bool:
    """Whether a file that was locked is the lock: its holder takes it away in the end."""
    try:
        return os.path.samestat(os.fstat(file), place.stat())
    except FileNotFoundError:
        return False


def _holder(file: int) -> Holder | None:
    """Who holds a lock, or did last; None where it died before it could say so."""
    try:
        return decode(Holder, parse_json(os.pread(file, _LONGEST, 0), "lock"), "lock")
    except FileError:
        return None


def _sign(file: int, place: Path) -> None:
    """Writes who holds the lock."""
    try:
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        files.put_all(file, json.dumps(encode(Holder(os.getpid(), platform.node()))).encode())
    except OSError:
        place.unlink()
        raise
