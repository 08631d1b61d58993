from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--overwrite", action="store_true", help="write tests/golden anew instead of comparing with it")
    parser.addoption("--every", action="store_true", help="run also tests marked thorough: more models of the same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    thorough = [item for item in items if item.get_closest_marker("thorough")]
    if thorough and not config.getoption("--every"):
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if item not in set(thorough)]


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have a narrow window, which pytest-xdist tells its workers."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def overwrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are written instead of read."""
    return bool(request.config.getoption("--overwrite"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine take many times longer than one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
