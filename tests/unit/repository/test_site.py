"""The documentation's site: every page of the index is in the navigation."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))


def find_pages(entries: list[object]) -> set[str]:
    found: set[str] = set()
    for entry in entries:
        assert isinstance(entry, dict)
        for value in entry.values():
            found |= find_pages(value) if isinstance(value, list) else {value}
    return found


def test_the_navigation_has_every_page_of_the_index(tmp_path: Path) -> None:
    pages = find_pages(SITE["navigation"]())
    index = (ROOT / "docs" / "README.md").read_text()
    first = re.findall(r"^\| \[[^\]]+\]\(([\w-]+\.md)\)", index, re.MULTILINE)
    assert {f"docs/{name}" for name in first} <= pages
    SITE["stage"](tmp_path)
    assert {page for page in pages if not (tmp_path / page).is_file()} == set()


def test_the_site_is_built_unless_a_link_leads_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="`make docs` installs mkdocs")
    main, stage = SITE["main"], SITE["stage"]
    assert main([str(tmp_path / "site")]) == 0
    assert (tmp_path / "site" / "docs" / "packages.html").is_file()
    assert (tmp_path / "site" / "search" / "search_index.json").is_file()

    def stage_with_a_broken_link(folder: Path) -> None:
        stage(folder)
        with (folder / "docs" / "packages.md").open("a") as page:
            page.write("\n[nowhere](no-such-page.md)\n")

    main.__globals__["stage"] = stage_with_a_broken_link
    assert main([str(tmp_path / "broken")]) != 0
