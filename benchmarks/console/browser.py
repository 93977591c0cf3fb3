"""Drives Debian's Chromium, without a window, by its DevTools protocol."""

import asyncio
import base64
import contextlib
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")


class Page:
    """A tab of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, browser: int) -> None:
        self._socket = socket
        self._browser = browser
        self._numbers = itertools.count(1)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; events that arrive meanwhile are dropped."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            answer = await self._socket.receive_json(timeout=60)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        reply = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in reply:
            raise RuntimeError(str(reply["exceptionDetails"]))
        return reply["result"].get("value")

    async def open(self, url: str) -> None:
        """Open a URL and wait until the page has loaded and painted."""
        await self.call("Page.navigate", url=url)
        await self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        await asyncio.sleep(0.3)

    async def wait_for(self, expression: str, within_s: float = 60) -> None:
        """Wait until an expression is true. Raises TimeoutError."""
        async with asyncio.timeout(within_s):
            while True:
                with contextlib.suppress(RuntimeError):  # the page is being replaced
                    if await self.evaluate(expression):
                        return
                await asyncio.sleep(0.05)

    async def show_as(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window and the preferred colours."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    def memory_mb(self) -> float:
        """Return the private memory of the largest process of a page, in 10^6 bytes.

        The browser has one tab, and a spare process for the next one.
        """
        return max(map(_private_bytes, _renderers(self._browser))) / 1e6

    async def save(self, file: Path) -> None:
        """Write a picture of the window."""
        screenshot = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(file.write_bytes, base64.b64decode(screenshot["data"]))


def find_program() -> str:
    """Return the browser's path; empty if none is installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), "")


def _renderers(browser: int) -> Iterator[int]:
    """Yield the browser's processes of pages: its descendants of that type."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(stat[1])
    for process, parent in parents.items():
        while parent not in (browser, 0):
            parent = parents.get(parent, 0)
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if parent == browser and b"--type=renderer" in command:
                yield process


def _private_bytes(process: int) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _read_port(profile: str) -> str:
    """Return the port of the protocol; empty until the browser has written it."""
    with contextlib.suppress(OSError):
        first, *remaining_lines = Path(profile, "DevToolsActivePort").read_text().split("\n")
        return first if remaining_lines else ""
    return ""


@contextlib.asynccontextmanager
async def open_browser() -> AsyncIterator[Page]:
    """Start a browser with a profile of its own, and end it afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            find_program(),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(60):
                while True:
                    if port := _read_port(profile):
                        break
                    await asyncio.sleep(0.05)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    tabs = await answer.json()
                tab = next(target for target in tabs if target["type"] == "page")
                url = tab["webSocketDebuggerUrl"]
                async with session.ws_connect(url, max_msg_size=64 << 20) as socket:
                    yield Page(socket, process.pid)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
