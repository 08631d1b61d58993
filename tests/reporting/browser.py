"""A headless Chromium driven over its own pipe, so that tests see a page as people do and need nothing installed."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def chromium() -> str | None:
    """Where a Chromium is, if anywhere."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page of one browser; what it asked for and complained of is kept."""

    def __init__(self, program: str, home: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]  # clear of 3 and 4
        flags = ["--headless", "--disable-gpu", "--no-sandbox", "--no-first-run", "--disable-dev-shm-usage"]
        flags += [f"--user-data-dir={home}", "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe"]
        command = [sys.executable, "-c", _LAUNCH, *map(str, theirs), program, *flags, "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, pass_fds=theirs, stdin=quiet, stdout=quiet, stderr=quiet)
        for fd in (theirs_in, theirs_out, *theirs):
            os.close(fd)
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._session = ""
        try:
            self.ask("Browser.close")
            self._process.wait(10)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            os.close(self._out)
            os.close(self._in)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer; events in between are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def open(self, page: Path) -> None:
        """Opens a file and waits until it is loaded."""
        before = len(self.events)
        self.ask("Page.navigate", url=page.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events[before:]):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """What an expression of the page's script is."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """All addresses the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[dict[str, Any]]:
        """Errors of the page's script, and what the browser logged."""
        loud = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed")
        return [e for e in self.events if e.get("method") in loud]

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + 30
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], deadline - time.monotonic())
            data = os.read(self._in, 2**16) if ready else b""
            if not data:
                raise TimeoutError("the browser does not answer")
            self._rest += data
        message, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(message))
