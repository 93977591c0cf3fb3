"""Follows every kind of link in a browser while all names and texts of the cluster are hostile.

Names have markup, quotes, template syntax, control characters of writing direction, or 253
characters. A page must run none of it, lead nowhere that fails, and fit a narrow window.
"""

import json
import re
from collections import Counter, deque
from typing import Any, Final

from benchmarks.console.browser import Page
from benchmarks.console.synthetic import SyntheticCluster

TEXTS: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); //",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u2066",
    "x" * 253,
    "</title></svg></textarea><b>",
)
_NAME_FIELDS: Final = frozenset(
    ("name", "namespace", "node", "nodeName", "nodeNames", "gpu", "gpuName", "pool", "layout")
)
_TEXT_FIELDS: Final = frozenset(("message", "reason", "health", "product"))
_MOST_ALIKE: Final = 5  # pages of one kind
_WATCH: Final = """
window.alert = () => { document.documentElement.dataset.alerted = '1'; };
document.addEventListener('securitypolicyviolation', (one) => {
  document.documentElement.dataset.violated = one.violatedDirective;
});"""
_STATE: Final = """JSON.stringify({
  status: performance.getEntriesByType('navigation')[0].responseStatus,
  alerted: document.documentElement.dataset.alerted || '',
  violated: document.documentElement.dataset.violated || '',
  foreign: document.querySelectorAll('script:not([src="/static/console.js"]), img, iframe').length,
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth + 1,
  links: [...document.querySelectorAll('a[href^="/"]')].map((one) => one.getAttribute('href')),
})"""


def make_hostile(cluster: SyntheticCluster) -> SyntheticCluster:
    """Return a cluster with the same objects, whose names and texts end with hostile ones.

    Equal names stay equal, so that references between objects still lead somewhere.
    """
    changed = SyntheticCluster()
    for kind, objects in cluster.objects.items():
        for document in objects.values():
            changed.put(kind, _change(document, ""))
    return changed


def _change(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _change(member, name) for name, member in value.items()}
    if isinstance(value, list):
        return [_change(element, key) for element in value]
    if not isinstance(value, str) or value in ("default", "Healthy"):
        return value
    suffix = TEXTS[sum(value.encode()) % len(TEXTS)]
    if key in _TEXT_FIELDS:
        return value + suffix
    if key in _NAME_FIELDS:
        return value + suffix.replace("/", "")  # Kubernetes refuses slashes
    return value


async def crawl(page: Page, url: str) -> tuple[int, list[str]]:
    """Return how many pages were opened, and the findings."""
    base = url.partition("/?")[0]
    await page.call("Page.enable")
    await page.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
    await page.show_as(390, 800)
    await page.open(url)
    waiting, queued_links, alike = deque(["/"]), {"/"}, Counter[str]()
    findings: list[str] = []
    while waiting:
        path = waiting.popleft()
        await page.open(base + path)
        state = json.loads(await page.evaluate(_STATE))
        findings += [f"{path[:120]}: {problem}" for problem in describe_problems(state)]
        for link in state["links"]:
            link = link.partition("#")[0]
            kind = re.sub(r"[^/?&=]{20,}|\d+", "*", link)[:60]
            if link not in queued_links and alike[kind] < _MOST_ALIKE:
                queued_links.add(link)
                alike[kind] += 1
                waiting.append(link)
    return len(queued_links), findings


def describe_problems(state: dict[str, Any]) -> list[str]:
    """Return what is wrong with a page."""
    return [
        text
        for wrong, text in (
            (state["status"] >= 400, f"the answer has status {state['status']}"),
            (state["alerted"], "a script of a name ran"),
            (state["violated"], f"the policy refused {state['violated']}"),
            (state["foreign"], "the page has a script, an image or a frame that is not its own"),
            (state["wide"], "the page is wider than a narrow window"),
        )
        if wrong
    ]
