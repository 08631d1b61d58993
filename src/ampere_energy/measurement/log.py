"""The measurement log: append-only JSON lines, safe against crashes and company.

A line is written whole under an exclusive lock and synced to disk before `append` returns; a measurement
that was acknowledged is there after any crash. A writer killed in mid-line leaves a torn last line: readers
drop it with a warning, and the next writer cuts it off. Whoever reads a log in order to go on with it holds it
(`held`), so that no two commands do.

A log may be packed by gzip (`log.jsonl.gz`): it is the same log. Before something is added it is unpacked, and the
packed file goes away. Where both files are there and neither begins as the other does, the packed one was first.
"""

from __future__ import annotations

import json
import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ampere_energy import files
from ampere_energy.errors import FileError, printable
from ampere_energy.measurement.lock import held
from ampere_energy.measurement.records import Measurement, Record, Timing, within_reason
from ampere_energy.serialization import LONGEST_TEXT, decode, encode, parse_json

SCHEMA = 1
LARGEST_BYTES = 2**27
MOST_RECORDS = 2**15
_ANEW = "start anew with --fresh, which keeps this log beside"
_AGAIN = f"restore it from a copy, or {_ANEW}"
_LINE = f"take that line out, or {_ANEW}"


class MeasurementLog:
    """Measurements and timings in a file, one a line, in the order they were acknowledged."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Adds one record; when this returns, it is on disk."""
        if record.infeasible is not None:
            record = replace(record, infeasible=printable(record.infeasible)[:LONGEST_TEXT])
        sort = "timing" if isinstance(record, Timing) else "measurement"
        try:
            line = json.dumps({"schema": SCHEMA, sort: encode(record)}, allow_nan=False)
        except ValueError as error:
            raise FileError(f"{self.path} cannot hold what was measured ({error})", "check the meter") from error
        parse_json(line, f"a new line of {self.path}")  # what could not be read is not written
        self._unpack()
        files.append(self.path, f"{line}\n".encode())

    def create(self) -> None:
        """Makes an empty log where there is none."""
        if not self.exists():
            files.write(self.path, b"")

    def exists(self) -> bool:
        """Whether there is such a log, packed or not."""
        return files.exists(self.path) or files.exists(self._packed)

    def empty(self) -> bool:
        """Whether nothing stands in it, packed or not."""
        return not (files.size(self.path) or files.size(self._packed))

    def held(self, wait: bool = False) -> AbstractContextManager[None]:
        """Holds the log: another process that does is an error that names it, or is waited for."""
        return held(self.path, wait)

    def set_aside(self) -> Path | None:
        """Gives the log another name, `log.1.jsonl`, so that a new one can begin; the name, where there was one."""
        own = [path for path in (self.path, self._packed) if files.size(path)]
        for number in range(1, 10**6) if own else ():
            aside = MeasurementLog(self.path.with_suffix(f".{number}{self.path.suffix}"))
            if not aside.exists():
                for path in own:
                    files.move(path, aside.path if path == self.path else aside._packed)
                return aside.path if own[0] == self.path else aside._packed
        return None

    def read(self) -> list[Record]:
        """All whole records; a torn last line is left out with a warning."""
        data = self._data()
        *lines, rest = data.split(b"\n")
        if rest:
            warnings.warn(f"{self.path}: the last line is torn and was left out", stacklevel=2)
        if len(lines) > MOST_RECORDS:
            raise FileError(f"log {self.path} has {len(lines)} lines, more than {MOST_RECORDS}", _AGAIN)
        return [_decode(line, f"{self.path} line {number}") for number, line in enumerate(lines, start=1)]

    @property
    def _packed(self) -> Path:
        return self.path.with_name(f"{self.path.name}.gz")

    def _data(self) -> bytes:
        """The bytes of the log, from the one file or the other."""
        packed = files.read(self._packed, "log", _AGAIN, LARGEST_BYTES) if files.exists(self._packed) else b""
        plain = files.read_appended(self.path, "log", _AGAIN, LARGEST_BYTES) if files.exists(self.path) else b""
        first = packed[: packed.rfind(b"\n") + 1]
        if plain.startswith(first) or not plain:
            return plain or packed
        if first.startswith(plain):
            return packed
        warnings.warn(f"{self._packed} and {self.path} hold different measurements: both count", stacklevel=3)
        return first + plain

    def _unpack(self) -> None:
        """Makes one plain file of a packed log; of several processes that want to, one does."""
        if files.exists(self._packed):
            with self.held(wait=True):
                if files.exists(self._packed):
                    files.write(self.path, self._data())
                    files.remove(self._packed)


def _decode(line: bytes, where: str) -> Record:
    record = parse_json(line, where, _LINE)
    if not isinstance(record, dict) or "schema" not in record:
        raise FileError(f"{where} is not a measurement", "is it an AMPERE log?")
    if record["schema"] != SCHEMA:
        raise FileError(f"{where} has schema {_short(record['schema'])}, this version reads {SCHEMA}", "upgrade AMPERE")
    found: Record = (
        decode(Timing, record["timing"], where, _LINE)
        if "timing" in record
        else decode(Measurement, record.get("measurement"), where, _LINE)
    )
    if not within_reason(found):
        raise FileError(f"{where} has joules or seconds that no step takes", _LINE)
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 20 else f"{text[:20]}…"
