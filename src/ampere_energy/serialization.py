"""Frozen dataclasses to plain JSON values and back, strictly.

`encode` turns dataclasses into dicts, tuples into lists and enums into their values. `decode` is driven by
the dataclass's annotations and accepts nothing else: a missing or unknown field, a wrong type, a NaN or an
infinity is a `FileError` that names the place. A decoded value is therefore as good as a constructed one.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
import reprlib
import types
import typing
from collections import Counter
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar

from ampere_energy.errors import AmpereError, FileError, printable

T = TypeVar("T")
AS_IT_WAS = "use the file as it was made, or make it anew"
MOST_VALUES = 10**6
LONGEST_TEXT = 4096
_MOST_ITEMS = 2**17
_LONGEST = 300
_RIGHT = "is it the right file"


def encode(value: Any) -> Any:
    """The JSON form of a dataclass, enum, tuple or scalar."""
    return _encode(value, identity=False)


def _encode(value: Any, identity: bool) -> Any:
    """The JSON form; for an identity, what is incidental is written as what stands for it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {}
        for f in dataclasses.fields(value):
            own = getattr(value, f.name)
            if identity and "incidental" in f.metadata:
                own = f.metadata["incidental"]
            if not (f.metadata.get("later") and own == f.default):
                found[f.name] = _encode(own, identity)
        return found
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [_encode(item, identity) for item in value]
    return value


def later(default: T) -> T:
    """A field that older files lack: written only where it differs from its default, so that names stay the same."""
    return dataclasses.field(default=default, metadata={"later": True})


def incidental(stands_for_it: T, *, required: bool = False) -> T:
    """A field that tells no two values apart: neither equality nor a digest looks at it.

    Args:
        stands_for_it: what digests have in its place, and its default.
        required: whether it has no default.
    """
    about = {"incidental": stands_for_it}
    if required:
        return typing.cast(T, dataclasses.field(compare=False, metadata=about))
    return dataclasses.field(default=stands_for_it, compare=False, metadata=about)


def decode(cls: type[T], data: Any, where: str, remedy: str = AS_IT_WAS) -> T:
    """Builds a `cls` from JSON values; `where` names the place in errors, `remedy` what to do about one."""
    try:
        return typing.cast(T, _decode(cls, data, where))
    except FileError as error:
        raise FileError(error.what, error.remedy or remedy) from error


def digest(value: Any) -> str:
    """Eight hexadecimal digits that change with any part of the value but what is incidental."""
    text = json.dumps(_encode(value, identity=True), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def parse_json(text: str | bytes, where: str, remedy: str = AS_IT_WAS) -> Any:
    """JSON text, UTF-8 where it is bytes, to values of bounded number and size.

    Broken text, an object with a field twice, and texts that no terminal should show are a `FileError`.
    """
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        if sum(map(text.count, ",[{")) > MOST_VALUES:
            raise FileError(f"{where} is larger than any profile or log: over {MOST_VALUES} values", f"{_RIGHT}?")
        record = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where} is not JSON ({_cut(error)})", f"{_RIGHT}, or was it cut short?") from error
    _check_texts(record, where, remedy)
    return record


def _check_texts(record: Any, where: str, remedy: str) -> None:
    """Refuses text that no file of ours holds and no terminal should show: control characters, halves, novels."""
    rest = [record]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            rest += value
            rest += value.values()
        elif isinstance(value, list):
            rest += value
        elif isinstance(value, str) and (len(value) > LONGEST_TEXT or value != printable(value)):
            what = f"the text {value[:40]!r}, which is too long or has control characters"
            raise FileError(f"{where} has {what}", remedy)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {twice[:60]!r} stands there twice")
    return found


def _cut(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@cache
def _fields(cls: Hashable) -> dict[str, tuple[Any, bool]]:
    hints = typing.get_type_hints(cls)
    return {
        f.name: (
            hints[f.name],
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
        )
        for f in dataclasses.fields(typing.cast(type[Any], cls))
    }


def _decode(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(hint), data, where)
    if origin is tuple:
        return _decode_tuple(typing.get_args(hint), data, where)
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(typing.cast(type[Any], hint), data, where)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(data)
        except ValueError:
            raise _unexpected(where, f"one of {', '.join(str(m.value) for m in hint)}", data) from None
    if _is_scalar(hint, data):
        return float(data) if hint is float else data
    raise _unexpected(where, getattr(hint, "__name__", str(hint)), data)


def _decode_dataclass(cls: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _unexpected(where, "an object", data)
    fields = _fields(typing.cast(Hashable, cls))
    for name in data:
        if name not in fields:
            raise FileError(f"{where} has an unknown field {str(name)[:60]!r}")
    values = {}
    for name, (hint, required) in fields.items():
        if name in data:
            values[name] = _decode(hint, data[name], f"{where}.{name}")
        elif required:
            raise FileError(f"{where} has no {name!r}")
    try:
        return cls(**values)
    except AmpereError as error:
        raise FileError(f"{where} is not valid: {error.what}") from error
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError) as error:
        raise FileError(f"{where} is not valid: {_cut(error)}") from error


def _decode_tuple(args: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _unexpected(where, "a list", data)
    if len(data) > _MOST_ITEMS:
        raise FileError(f"{where} has {len(data)} items, more than {_MOST_ITEMS}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(data) != len(args):
        raise FileError(f"{where} has {len(data)} items, not {len(args)}")
    return tuple(_decode(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, data, strict=True)))


def _decode_union(options: tuple[Any, ...], data: Any, where: str) -> Any:
    """Scalars first, then a list or the dataclass whose required fields the object has."""
    for option in options:
        if option is type(None) and data is None:
            return None
        if _is_scalar(option, data):
            return float(data) if option is float else data
    for option in options:
        if typing.get_origin(option) is tuple and isinstance(data, list):
            return _decode(option, data, where)
        if dataclasses.is_dataclass(option) and isinstance(data, dict):
            required = {n for n, (_, needed) in _fields(typing.cast(Hashable, option)).items() if needed}
            if required <= data.keys():
                return _decode(option, data, where)
    raise _unexpected(where, " or ".join(getattr(o, "__name__", str(o)) for o in options), data)


def _is_scalar(hint: Any, data: Any) -> bool:
    if hint is bool:
        return isinstance(data, bool)
    if hint is int:
        return isinstance(data, int) and not isinstance(data, bool) and abs(data) < 2**53
    if hint is float:
        if isinstance(data, int):
            return not isinstance(data, bool) and abs(data) < 2**1023
        return isinstance(data, float) and math.isfinite(data)
    if hint is str:
        return isinstance(data, str)
    return False


def _unexpected(where: str, wanted: str, data: Any) -> FileError:
    return FileError(f"{where} should be {wanted}, but is {reprlib.repr(data)}")
