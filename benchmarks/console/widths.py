"""Checks that nothing of a page is cut off: no content is wider than its column, no word of a
table is broken, and no text leaves its drawing.

The matrix of RDMA verbs has a column for each pod, so that it alone may scroll.
"""

from typing import Final

from benchmarks.console.accessibility import open_all, open_fleet
from benchmarks.console.browser import Page

SIZES: Final = ((1280, 800), (390, 800))
_FIND: Final = r"""(() => {
  const main = document.getElementById('main'), found = [];
  if (!main) return ['no page: ' + document.body.textContent.slice(0, 80)];
  const column = main.getBoundingClientRect().right;
  const name = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute('class') ?? ''} “${
    (one.getAttribute('aria-label') ?? one.textContent).trim().replace(/\s+/g, ' ').slice(0, 40)}”`;
  const scrolls = (one) => !one.querySelector('.matrix');
  for (const details of main.querySelectorAll('details')) details.open = true;
  for (const one of main.querySelectorAll('*')) {
    const box = one.getBoundingClientRect();
    if (!box.width || one.closest('.matrix, .hidden, thead')) continue;
    const style = getComputedStyle(one);
    const clips = ['auto', 'scroll', 'hidden'].includes(style.overflowX);
    const isCut = clips && scrolls(one) && one.scrollWidth > one.clientWidth + 1;
    if (isCut && !one.matches('input, select'))
      found.push(`${name(one)}: ${one.scrollWidth} px in ${one.clientWidth}`);
    else if (!one.closest('svg, .scroll') && scrolls(one) && box.right > column + 1)
      found.push(`${name(one)}: ${Math.round(box.right - column)} px beyond the column`);
  }
  for (const one of main.querySelectorAll('.wide-only')) {
    const forms = [one, one.nextElementSibling].filter((form) => form.offsetParent);
    if (forms.length !== 1) found.push(`${name(one)}: ${forms.length} of its forms are shown`);
  }
  for (const text of main.querySelectorAll('svg.drawing text, svg.timeline text')) {
    const box = text.getBoundingClientRect(), whole = text.ownerSVGElement.getBoundingClientRect();
    if (box.width && (box.right > whole.right + 1 || box.left < whole.left - 1))
      found.push(`${name(text)}: leaves its drawing`);
  }
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const around = node.parentElement;
    if (!around.closest('td') || around.closest('.matrix, .hidden')) continue;
    for (const { 0: word, index } of node.data.matchAll(/[A-Za-z]{2,24}/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map((one) => Math.round(one.top))).size > 1)
        found.push(`“${word}” is broken in “${node.data.trim().slice(0, 40)}”`);
    }
  }
  return [...new Set(found)].slice(0, 12);
})()"""


async def check(page: Page, url: str) -> list[str]:
    """Return what is cut off on all pages, in a wide and in a narrow window."""
    await open_fleet(page, url)
    findings = []
    for width, height in SIZES:
        await page.show_as(width, height)
        async for name in open_all(page, url):
            clipped_elements = await page.evaluate(_FIND)
            findings += [f"{name} at {width} px: {element}" for element in clipped_elements]
    return findings
