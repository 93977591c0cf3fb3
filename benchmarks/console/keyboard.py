"""Checks that a link keeps the focus while its page changes, and that Enter follows it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from benchmarks.console.browser import Page

# The page, its link, and what has been replaced when the page has changed.
_CASES: Final = (
    ("/", ".card a[href^='/gpus/']", ".card"),
    ("/metrics", ".card a[href^='/gpus/']", "main"),
    ("/nodes/gpu-0003", "main a[href^='/slices/']", "main"),
)
_FOCUS: Final = """(() => {
  const link = document.querySelector("%s");
  link.focus();
  window.old = link.closest("%s");
  return link.getAttribute('href');
})()"""
_FOCUSED: Final = "document.activeElement.getAttribute('href')"


async def check(page: Page, url: str, touch: Callable[[], Awaitable[object]]) -> list[str]:
    """Return the findings. ``touch`` changes a GPU of the cluster, another one each time."""
    base = url.partition("/?")[0]
    await page.open(url)
    findings = []
    for path, link, replaced in _CASES:
        await page.open(base + path)
        await page.wait_for("document.getElementById('live').dataset.state === 'on'")
        href = await page.evaluate(_FOCUS % (link, replaced))
        for _ in range(80):
            if not await page.evaluate("window.old.isConnected"):
                break
            await touch()
            await asyncio.sleep(0.25)
        else:
            findings.append(f"{path} {link}: the page has not changed")
        focused = await page.evaluate(_FOCUSED)
        if focused != href:
            findings.append(f"{path} {link}: the focus is on {focused}, not on {href}")
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        await page.call("Input.dispatchKeyEvent", type="keyDown", **key)
        try:
            await page.wait_for(f"location.pathname !== '{path}'", 10)
        except TimeoutError:
            findings.append(f"{path} {link}: Enter does not follow the link")
    for path in ("/performance", "/layout", "/rdma/what-if"):
        await page.open(base + path)
        try:
            await page.wait_for("document.getElementById('live').dataset.state === 'on'", 5)
        except TimeoutError:
            findings.append(f"{path}: the dot does not show that the console is connected")
    return findings
