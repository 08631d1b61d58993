"""One thread for small matrices: several BLAS threads on matrices of a few hundred rows wait for each other, and for
whatever else the machine does (a hundredfold, on a busy machine). Large batches of predictions keep them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS on one thread for a while."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
