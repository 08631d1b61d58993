"""The measurement log: append-only JSON lines, safe against crashes and company.

A line is written whole under an exclusive lock and synced to disk before `append` returns; a measurement
that was acknowledged is there after any crash. A writer killed in mid-line leaves a torn last line: readers
drop it with a warning, and the next writer cuts it off. Logs are never rewritten. One that is finished may be packed by
gzip (`log.jsonl.gz`): it is read all the same.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ampere_energy.errors import FileError
from ampere_energy.measure.measurement import Measurement, Record, Timing
from ampere_energy.plain import decode, encode, parse_json

SCHEMA = 1


class MeasurementLog:
    """Measurements and timings in a file, one a line, in the order they were acknowledged."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Adds one record; when this returns, it is on disk."""
        sort = "timing" if isinstance(record, Timing) else "measurement"
        line = json.dumps({"schema": SCHEMA, sort: encode(record)}, allow_nan=False) + "\n"
        with self._open(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as file:
            end = _complete_length(file)
            if end != os.fstat(file).st_size:
                os.ftruncate(file, end)
            os.lseek(file, end, os.SEEK_SET)
            data = line.encode()
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)

    @property
    def _packed(self) -> Path:
        return self.path.with_name(f"{self.path.name}.gz")

    def exists(self) -> bool:
        """Whether there is such a log, packed or not."""
        return self.path.exists() or self._packed.exists()

    def read(self) -> list[Record]:
        """All whole records; a torn last line is left out with a warning."""
        if self._packed.exists():
            try:
                data = gzip.decompress(self._packed.read_bytes())
            except (OSError, EOFError, zlib.error) as error:
                raise FileError(f"{self._packed} cannot be unpacked ({error})", "get it again") from error
        elif self.path.exists():
            with self._open(os.O_RDONLY, fcntl.LOCK_SH) as file:
                data = _read_all(file)
        else:
            return []
        *lines, rest = data.split(b"\n")
        if rest:
            warnings.warn(f"{self.path}: the last line is torn and was left out", stacklevel=2)
        return [self._decode(line, number) for number, line in enumerate(lines, start=1)]

    def _decode(self, line: bytes, number: int) -> Record:
        where = f"{self.path} line {number}"
        record = parse_json(line, where)
        if not isinstance(record, dict) or "schema" not in record:
            raise FileError(f"{where} is not a measurement", "is it an AMPERE log?")
        if record["schema"] != SCHEMA:
            raise FileError(f"{where} has schema {record['schema']!r}, this version reads {SCHEMA}", "upgrade AMPERE")
        if "timing" in record:
            return decode(Timing, record["timing"], where)
        return decode(Measurement, record.get("measurement"), where)

    @contextmanager
    def _open(self, flags: int, lock: int) -> Iterator[int]:
        new = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise FileError(f"{self.path} cannot be opened ({error.strerror})", "choose another --out") from error
        try:
            fcntl.flock(file, lock)
            if new:
                _sync_folder(self.path.parent)
            yield file
        finally:
            os.close(file)


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


def _read_all(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as stream:
        return stream.read()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
