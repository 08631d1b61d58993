"""Numbers and tables as the pages have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def percent(share: float, digits: int = 1) -> str:
    """A share for people: `percent(0.0123)` is `1.2 %`."""
    return f"{100 * share:.{digits}f} %"


def signed(share: float, digits: int = 1) -> str:
    """The same with its sign."""
    return f"{100 * share:+.{digits}f} %"


def span(shares: Iterable[float], digits: int = 1) -> str:
    """From the least to the largest: `1.2 to 9.9 %`."""
    known = sorted(shares)
    low, high = (f"{100 * share:.{digits}f}" for share in (known[0], known[-1]))
    return f"{low} %" if low == high else f"{low} to {high} %"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def listing(found: dict[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """What a study found, a row for each of its numbers."""
    rows = []
    for name, value in found.items():
        if isinstance(value, dict):
            rows += listing(value, f"{prefix}{name}: ")
        elif isinstance(value, list):
            rows.append((f"{prefix}{name}", ", ".join(map(str, value)) or "none"))
        else:
            rows.append((f"{prefix}{name}", str(value) if isinstance(value, int) else format(value, ".3g")))
    return rows
