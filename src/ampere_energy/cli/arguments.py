"""What people type, made into values: one parser for each sort of quantity, for all options.

Every number has a range. A parser runs while the command line is read, before anything is opened, moved or measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ampere_energy.errors import RequestError
from ampere_energy.units import Quantity

if TYPE_CHECKING:
    from ampere_energy.model.source import InputSpec, ModelRef
    from ampere_energy.model.structures import Axis
    from ampere_energy.model.widths import WidthRange
    from ampere_energy.optimization.pruning.pruned import Budget


MOST_COUNTED = 10**15
"""Steps or samples: at a millisecond each they would take thirty thousand years."""
MOST_SEED = 2**32 - 1
MOST_STEP = 2**16
"""Widths may be multiples of so much."""
_MOST_WIDTH = 2**31 - 1
_MOST_SIZE = 10**12
_MOST_DIMENSIONS = 16
_MOST_VALUES = 2**16
"""Values of one argument: more than any campaign or search could tell apart."""
_LONGEST = 40


def choice(options: Any, value: str, option: str) -> Any:
    """The network of an enumeration that a word names."""
    try:
        return options(value)
    except ValueError:
        raise RequestError(f"{option} {_cut(value)}", f"choose from {', '.join(options)}") from None


def one_of(options: Sequence[str], value: str, option: str) -> str:
    """The word, where it is one of some."""
    if value not in options:
        raise RequestError(f"{option} {_cut(value)}", f"choose from {', '.join(options)}")
    return value


def within(value: int, option: str, low: int, high: int, text: str = "") -> int:
    """The whole number, where it is in a range."""
    if value < low:
        raise RequestError(f"{option} {_cut(text or str(value))}", f"give at least {low}")
    if value > high:
        raise RequestError(f"{option} {_cut(text or str(value))}", f"give at most {high}")
    return value


def numbers(text: str, option: str, low: int | None = None, high: int = _MOST_SIZE) -> tuple[int, ...]:
    """Whole numbers between commas, each in a range; without a lowest one, signs are looked at elsewhere."""
    try:
        found = tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        such = "16,32,64" if option == "--widths" else "32,3,64,64"
        raise RequestError(f"{option} {_cut(text)}", f"give whole numbers with commas, such as {such}") from None
    return tuple(within(n, option, -high if low is None else low, high, text) for n in found)


def arguments_of(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names and values of a factory's arguments: `width=32,depth=3`, or values alone by position: `32,3`."""
    if "=" not in text:
        return (), numbers(text, "--widths", 0, _MOST_WIDTH)
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip().isidentifier() and value.strip().isdecimal() for name, _, value in pairs):
        raise RequestError(f"--widths {_cut(text)}", "give each argument a whole number, such as width=32,depth=3")
    values = numbers(",".join(value for _, _, value in pairs), "--widths", 0, _MOST_WIDTH)
    return tuple(name.strip() for name, _, _ in pairs), values


def axis_of(text: str) -> Axis:
    """An argument and the values it may take: `depth=2:6`, `width=16:64:8`, `kernel=3,5,7`."""
    from ampere_energy.model.structures import Axis

    name, _, values = text.partition("=")
    parts = [part.split(":") for part in values.split(",")]
    if not name.isidentifier() or not all(len(part) <= 3 and all(n.isdecimal() for n in part) for part in parts):
        raise RequestError(f"--vary {_cut(text)}", "give values such as depth=2:6, width=16:64:8 or kernel=3,5,7")
    found: set[int] = set()
    for part in parts:
        low, high, step = _span(part, "--vary", text)
        if len(found) + (high - low) // step >= _MOST_VALUES:
            raise RequestError(f"--vary {_cut(text)}", f"give at most {_MOST_VALUES} values, such as width=16:64:8")
        found.update(range(low, high + 1, step))
    return Axis(name, tuple(sorted(found)))


def width_ranges(text: str) -> tuple[WidthRange, ...]:
    """What each width may be: `8:64:8,16:128,10` is 8 to 64 by steps of 8, any of 16 to 128, and 10."""
    from ampere_energy.model.widths import WidthRange

    parts = [part.split(":") for part in text.split(",")] if text else []
    if any(len(part) > 3 for part in parts):
        raise RequestError(f"--widths {_cut(text)}", "give LOW:HIGH:STEP for each width, such as 8:64:8,16:128:8")
    return tuple(WidthRange(*_span(part, "--widths", text)) for part in parts)


def _span(part: Sequence[str], option: str, text: str) -> tuple[int, int, int]:
    """The lowest and highest value and the step of `8`, `8:64` or `8:64:8`."""
    values = [within(numbers(number or "none", option)[0], option, 1, _MOST_WIDTH, text) for number in part]
    low, high, step = values[0], values[min(1, len(values) - 1)], values[2] if len(values) == 3 else 1
    if high < low:
        raise RequestError(f"{option} {_cut(text)}", f"give the lower value first: {high}:{low}")
    return low, high, step


def inputs_of(texts: Sequence[str]) -> tuple[tuple[int, ...], tuple[InputSpec, ...]]:
    """The shape of the only input, or what each of several is: `32,3,64,64`, `ids:int64:8,128`, `:int64:8,128:30522`.

    The parts of an input are its argument's name (empty: by position), its type, its shape, and, of integers, the
    end of their values.
    """
    if len(texts) == 1 and ":" not in texts[0]:
        return _shape(texts[0]), ()
    from ampere_energy.model.source import InputSpec

    found = []
    for text in texts:
        if text.count(":") not in (0, 2, 3):
            raise RequestError(f"--input {_cut(text)}", "give name:type:shape, such as ids:int64:8,128")
        name, dtype, shape, high = (*text.split(":"), "")[:4] if ":" in text else ("", "float32", text, "")
        found.append(InputSpec(name, dtype, _shape(shape), *numbers(high, "--input", 1, _MOST_WIDTH)[:1]))
    return (), tuple(found)


def _shape(text: str) -> tuple[int, ...]:
    sizes = numbers(text, "--input")
    if len(sizes) > _MOST_DIMENSIONS:
        raise RequestError(f"--input {_cut(text)}", f"give at most {_MOST_DIMENSIONS} sizes, such as 32,3,64,64")
    return sizes


def inputs_text(ref: ModelRef) -> list[str]:
    """What `--input` a reference was made with."""
    if ref.input:
        return [",".join(map(str, ref.input))]
    return [
        ":".join((i.name, i.dtype, ",".join(map(str, i.shape)), *([str(i.high)] if i.high else []))) for i in ref.inputs
    ]


def counted(option: str, low: int = 1, high: int = MOST_COUNTED) -> Callable[[str], int]:
    """What reads an option's whole number, such as 1000 or 1e6, in a range; its default is a number already."""

    def count(text: str | int) -> int:
        value = _number(str(text))
        if value is None or value != int(value):
            raise RequestError(f"{option} {_cut(str(text))}", "give a whole number such as 1000 or 1e6")
        return within(int(value), option, low, high, str(text))

    return count


def threads(text: str | int) -> int:
    """Threads of torch, no more than this machine has cores."""
    from ampere_energy.measurement.devices import threads_here

    return threads_here(counted("--threads")(str(text)))


def finite(option: str) -> Callable[[str], float]:
    """What reads an option's number, of either sign."""

    def read(text: str | float) -> float:
        value = _number(str(text))
        if value is None:
            raise RequestError(f"{option} {_cut(str(text))}", "give a number such as 0.9 or 1e6")
        return value

    return read


@dataclass(frozen=True)
class _Range:
    """What a quantity may be, in the unit its value comes in, and how to say so."""

    low: float
    high: float
    words: str

    def check(self, value: float, what: str) -> float:
        if not self.low <= value <= self.high:
            raise RequestError(what, f"give {self.words}")
        return value


_SECONDS = _Range(1e-3, 3.6e7, "1ms to 10000h")
_WATT_HOURS = _Range(1e-6, 1e12, "1e-3mWh to 1e9kWh")
_JOULES = _Range(1e-15, 1e18, "1e-12mJ to 1e9GJ")
_WATTS = _Range(1e-3, 1e4, "1mW to 10kW")
_SHARE = _Range(1e-4, 1.0, "0.01% to less than 100%")
_LEVEL = _Range(1e-2, 0.9999, "1% to 99.99%")


def seconds(text: str, option: str = "--budget") -> float | None:
    """Seconds of a time such as 60s, 2m, 1h or 1e2s; a number alone is seconds."""
    found = _quantity(text, _TIMES, "s")
    if text and found is None:
        raise RequestError(f"{option} {_cut(text)}", "give a time such as 60s, 2m or 1h")
    return _SECONDS.check(found.value, f"{option} {_cut(text)}") if found else None


def watt_hours(text: str) -> Quantity | None:
    """Watt-hours of a capacity such as 15Wh; a number alone could be anything, and is refused."""
    found = _quantity(text, {unit: factor / _ENERGIES["Wh"] for unit, factor in _ENERGIES.items()})
    if text and found is None:
        how = "give a capacity such as 15Wh; of mAh, a thousandth times the volts"
        raise RequestError(f"--battery {_cut(text)}", how)
    if found:
        _WATT_HOURS.check(found.value, f"--battery {_cut(text)}")
    return found


def joules(text: str, option: str = "--within") -> Quantity | None:
    """Joules of an energy such as 500J, 20kJ, 1.5e3J or 3Wh; a number alone is joules."""
    found = _quantity(text, _ENERGIES, "J")
    if text and found is None:
        raise RequestError(f"{option} {_cut(text)}", "give an energy such as 500J, 20kJ or 3Wh")
    if found:
        _JOULES.check(found.value, f"{option} {_cut(text)}")
    return found


def watts(text: str | float) -> float:
    """Watts of a power such as 10W; a number alone is watts."""
    found = _quantity(str(text), _POWERS, "W")
    if found is None:
        raise RequestError(f"--watts-per-core {_cut(str(text))}", "give positive watts, such as 10W")
    return _WATTS.check(found.value, f"--watts-per-core {_cut(str(text))}")


def share(text: str, option: str) -> float | None:
    """A share such as 3% or 0.03."""
    if not text:
        return None
    found = _quantity(text, {"%": 0.01, "": 1.0}, "")
    if found is None or not found.value < 1:
        raise RequestError(f"{option} {_cut(text)}", "give a share such as 3%")
    return _SHARE.check(found.value, f"{option} {_cut(text)}")


def probability(value: str | float) -> float:
    """A probability such as 90% or 0.9, as `--level` takes it; its default is a number already."""
    found = _quantity(str(value), {"%": 0.01, "": 1.0}, "")
    if found is None or not found.value < 1:
        raise RequestError(f"--level {_cut(str(value))}", "give a probability between 0 and 1, such as 0.9 or 90%")
    return _LEVEL.check(found.value, f"--level {_cut(str(value))}")


_TIMES = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_ENERGIES = {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "MJ": 1e6, "GJ": 1e9, "mWh": 3.6, "Wh": 3600.0, "kWh": 3.6e6}
_POWERS = {"mW": 1e-3, "W": 1.0, "kW": 1e3}
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"


def _quantity(text: str, units: Mapping[str, float], usual: str | None = None) -> Quantity | None:
    """A positive quantity in one of some units, as all options take it; None where the text is none.

    Args:
        units: how much each is of the unit that the value comes in. Letters may be of the wrong case where that
            leaves one unit to be meant: `15wh`, but not `1mj`.
        usual: the unit of a number alone; None where one must be given.
    """
    match = re.fullmatch(rf"({_NUMBER})\s*(\D*)", text.strip())
    value = _number(match[1]) if match else None
    if match is None or value is None or value == 0:
        return None
    unit = match[2] or usual
    alike = [known for known in units if unit is not None and known.lower() == unit.lower()]
    known = unit if unit in units else alike[0] if len(alike) == 1 else None
    return None if known is None else Quantity(value * units[known], f"{match[1]} {known}".rstrip())


def _number(text: str) -> float | None:
    value = float(text) if re.fullmatch(rf"[+-]?{_NUMBER}", text.strip()) else math.nan
    return value if math.isfinite(value) else None


def _cut(text: str) -> str:
    """What was typed, as far as an error quotes it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def step_budget(text: str) -> Budget:
    """What a step may cost: a share such as 50%, or an energy such as 1.5J."""
    from ampere_energy.optimization.pruning.pruned import Budget

    try:
        if text.strip().endswith(tuple("Jh")):
            energy = joules(text, "--budget")
            return Budget(joules=energy.value if energy else None, text=energy.text if energy else "")
        return Budget(share=share(text, "--budget"))
    except RequestError as error:
        raise RequestError(
            error.what, "give a share below 100%, such as 50%, or joules a step, such as 1.5J"
        ) from error
