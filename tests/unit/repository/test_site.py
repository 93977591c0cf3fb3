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
    assert "../versions.html" in pages
    pages.discard("../versions.html")
    first = re.findall(r"^\| \[[^\]]+\]\(([\w-]+\.md)\)", index, re.MULTILINE)
    assert {f"docs/{name}" for name in first} <= pages
    SITE["stage"](tmp_path)
    assert {page for page in pages if not (tmp_path / page).is_file()} == set()


def test_the_newest_version_is_first_and_the_index_leads_to_it(tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.1", "0.2.0"):
        (tmp_path / name / "search").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    SITE["write_versions"](tmp_path)
    listed = re.findall(r'href="([^"]+)"', (tmp_path / "versions.html").read_text())
    assert listed == [f"{name}/index.html" for name in ("0.10.1", "0.9.0", "0.2.0")]
    assert "url=0.10.1/index.html" in (tmp_path / "index.html").read_text()


def test_the_site_is_built_unless_a_link_leads_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="`make docs` installs mkdocs")
    main, stage = SITE["main"], SITE["stage"]
    assert main([str(tmp_path / "site")]) == 0
    site = tmp_path / "site" / SITE["read_version"]()
    assert (site / "docs" / "packages.html").is_file()
    assert (site / "search" / "search_index.json").is_file()

    def stage_with_a_broken_link(folder: Path) -> None:
        stage(folder)
        with (folder / "docs" / "packages.md").open("a") as page:
            page.write("\n[nowhere](no-such-page.md)\n")

    main.__globals__["stage"] = stage_with_a_broken_link
    assert main([str(tmp_path / "broken")]) != 0
