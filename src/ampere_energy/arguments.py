"""What people type, made into values: one parser for each sort of quantity, for all options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ampere_energy.errors import RequestError
from ampere_energy.show.units import Quantity

if TYPE_CHECKING:
    from ampere_energy.decide.pruned import Budget
    from ampere_energy.model.source import InputSpec, ModelRef
    from ampere_energy.model.structures import Axis
    from ampere_energy.model.variants import WidthRange


def choice(options: Any, value: str, option: str) -> Any:
    """The member of an enumeration that a word names."""
    try:
        return options(value)
    except ValueError:
        raise RequestError(f"{option} {value}", f"choose from {', '.join(options)}") from None


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        such = "16,32,64" if option == "--widths" else "32,3,64,64"
        raise RequestError(f"{option} {text}", f"give whole numbers with commas, such as {such}") from None


def arguments_of(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names and values of a factory's arguments: `width=32,depth=3`, or values alone by position: `32,3`."""
    if "=" not in text:
        return (), numbers(text, "--widths")
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip().isidentifier() and value.strip().isdigit() for name, _, value in pairs):
        raise RequestError(f"--widths {text}", "give each argument a whole number, such as width=32,depth=3")
    return tuple(name.strip() for name, _, _ in pairs), tuple(int(value) for _, _, value in pairs)


def axis_of(text: str) -> Axis:
    """An argument and the values it may take: `depth=2:6`, `width=16:64:8`, `kernel=3,5,7`."""
    from ampere_energy.model.structures import Axis

    name, _, values = text.partition("=")
    parts = [part.split(":") for part in values.split(",")]
    whole = name.isidentifier() and all(len(part) <= 3 and all(n.isdigit() for n in part) for part in parts)
    if not whole or any(len(part) == 3 and int(part[2]) < 1 for part in parts):
        raise RequestError(f"--vary {text}", "give values such as depth=2:6, width=16:64:8 or kernel=3,5,7")
    found: set[int] = set()
    for low, high, step in ((*map(int, part), 0, 1)[:3] if len(part) < 3 else map(int, part) for part in parts):
        found.update(range(low, max(low, high) + 1, step or 1))
    return Axis(name, tuple(sorted(found)))


def positive(value: int, option: str) -> int:
    """The value, where it is at least 1."""
    if value < 1:
        raise RequestError(f"{option} {value}", "give at least 1")
    return value


def width_ranges(text: str) -> tuple[WidthRange, ...]:
    """What each width may be: `8:64:8,16:128,10` is 8 to 64 by steps of 8, any of 16 to 128, and 10."""
    from ampere_energy.model.variants import WidthRange

    found = []
    for part in text.split(",") if text else ():
        low, high, step = (*numbers(part.replace(":", ","), "--widths"), *(0, 0, 0))[:3]
        if part.count(":") > 2:
            raise RequestError(f"--widths {text}", "give LOW:HIGH:STEP for each width, such as 8:64:8,16:128:8")
        found.append(WidthRange(low, high or low, step or 1))
    return tuple(found)


def inputs_of(texts: Sequence[str]) -> tuple[tuple[int, ...], tuple[InputSpec, ...]]:
    """The shape of the only input, or what each of several is: `32,3,64,64`, `ids:int64:8,128`, `:int64:8,128:30522`.

    The parts of an input are its argument's name (empty: by position), its type, its shape, and, of integers, the
    end of their values.
    """
    if len(texts) == 1 and ":" not in texts[0]:
        return numbers(texts[0], "--input"), ()
    from ampere_energy.model.source import InputSpec

    found = []
    for text in texts:
        if text.count(":") not in (0, 2, 3):
            raise RequestError(f"--input {text}", "give name:type:shape, such as ids:int64:8,128")
        name, dtype, shape, high = (*text.split(":"), "")[:4] if ":" in text else ("", "float32", text, "")
        found.append(InputSpec(name, dtype, numbers(shape, "--input"), *numbers(high, "--input")[:1]))
    return (), tuple(found)


def inputs_text(ref: ModelRef) -> list[str]:
    """What `--input` a reference was made with."""
    if ref.input:
        return [",".join(map(str, ref.input))]
    return [
        ":".join((i.name, i.dtype, ",".join(map(str, i.shape)), *([str(i.high)] if i.high else []))) for i in ref.inputs
    ]


def counted(option: str) -> Callable[[str], int]:
    """What reads an option's whole number, such as 1000 or 1e6; its default is a number already."""

    def count(text: str | int) -> int:
        value = _number(str(text))
        if value is None or value != int(value):
            raise RequestError(f"{option} {text}", "give a whole number such as 1000 or 1e6")
        return positive(int(value), option)

    return count


def seconds(text: str, option: str = "--budget") -> float | None:
    """Seconds of a time such as 60s, 2m, 1h or 1e2s; a number alone is seconds."""
    found = _quantity(text, _TIMES, "s")
    if text and found is None:
        raise RequestError(f"{option} {text}", "give a time such as 60s, 2m or 1h")
    return found.value if found else None


def watt_hours(text: str) -> Quantity | None:
    """Watt-hours of a capacity such as 15Wh; a number alone could be anything, and is refused."""
    found = _quantity(text, {unit: factor / _ENERGIES["Wh"] for unit, factor in _ENERGIES.items()})
    if text and found is None:
        raise RequestError(f"--battery {text}", "give a capacity such as 15Wh; of mAh, a thousandth times the volts")
    return found


def joules(text: str, option: str = "--within") -> Quantity | None:
    """Joules of an energy such as 500J, 20kJ, 1.5e3J or 3Wh; a number alone is joules."""
    found = _quantity(text, _ENERGIES, "J")
    if text and found is None:
        raise RequestError(f"{option} {text}", "give an energy such as 500J, 20kJ or 3Wh")
    return found


def watts(text: str | float) -> float:
    """Watts of a power such as 10W; a number alone is watts."""
    found = _quantity(str(text), _POWERS, "W")
    if found is None:
        raise RequestError(f"--watts-per-core {text}", "give positive watts, such as 10W")
    return found.value


def share(text: str, option: str) -> float | None:
    """A share such as 3% or 0.03."""
    if not text:
        return None
    found = _quantity(text, {"%": 0.01, "": 1.0}, "")
    if found is None or not found.value < 1:
        raise RequestError(f"{option} {text}", "give a share such as 3%")
    return found.value


def probability(value: str | float) -> float:
    """A probability such as 90% or 0.9, as `--level` takes it; its default is a number already."""
    try:
        return share(str(value), "--level") or 0.0
    except RequestError as error:
        raise RequestError(error.what, "give a probability between 0 and 1, such as 0.9 or 90%") from error


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


def step_budget(text: str) -> Budget:
    """What a step may cost: a share such as 50%, or an energy such as 1.5J."""
    from ampere_energy.decide.pruned import Budget

    try:
        if text.strip().endswith(tuple("Jh")):
            energy = joules(text, "--budget")
            return Budget(joules=energy.value if energy else None, text=energy.text if energy else "")
        return Budget(share=share(text, "--budget"))
    except RequestError as error:
        raise RequestError(
            error.what, "give a share below 100%, such as 50%, or joules a step, such as 1.5J"
        ) from error
