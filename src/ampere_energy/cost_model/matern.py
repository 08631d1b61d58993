"""The Matérn-5/2 correlation of two points at a distance r: (1 + √5 r + 5/3 r²) exp(−√5 r), the paper's eq. 3."""

from __future__ import annotations

import math

import numpy as np

from ampere_energy.cost_model.physical_mean import Array

_ROOT5 = math.sqrt(5.0)


def matern52(squared: Array) -> Array:
    """The correlation at squared distances, which are overwritten: these are the largest arrays of a fit."""
    r = np.sqrt(squared, out=squared)
    r *= _ROOT5
    value: Array = r / 3
    value += 1
    value *= r
    value += 1
    np.negative(r, out=r)
    np.exp(r, out=r)
    value *= r
    return value


def matern52_with_slope(squared: Array) -> tuple[Array, Array]:
    """The correlation at squared distances Σ (Δₐ/ℓₐ)², and what its slope in log ℓₐ is of (Δₐ/ℓₐ)²."""
    r = _ROOT5 * np.sqrt(squared)
    decay = np.exp(-r)
    return (1 + r * (1 + r / 3)) * decay, (5 / 3) * (1 + r) * decay
