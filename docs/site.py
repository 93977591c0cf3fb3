"""Build a site with search from the pages: ``python docs/site.py DIRECTORY``, or ``make docs``.

The site is DIRECTORY/VERSION. Sites of other versions in DIRECTORY stay, and versions.html lists
them; index.html leads to the newest.

MkDocs reads a copy of the repository's pages in the same folders, so that links between them need
no change. The navigation is the index docs/README.md. A link that leads nowhere fails the build.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/README.md")
_MORE = ("charts/tessera/README.md",)
_FOLDERS = ("docs", "examples")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+\.md)\)", re.MULTILINE)


def stage(folder: Path) -> None:
    """Copy the pages, and what they link to, to a folder."""
    for name in (*_PAGES, *_MORE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name in _FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.py[co]")
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True, ignore=ignored)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")


def navigation() -> list[object]:
    """Return MkDocs' navigation from the index page."""
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    _, *parts = _SECTION.split(text)
    entries: list[object] = [{"Tessera": "README.md"}, {"All pages": "docs/README.md"}]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        pages = [
            {name: str((ROOT / "docs" / link).resolve().relative_to(ROOT))}
            for name, link in _ROW.findall(body)
        ]
        if pages:
            entries.append({title: pages})
    return [*entries, {"Changelog": "CHANGELOG.md"}, {"Versions": "../versions.html"}]


def read_version() -> str:
    """Return the version of the package."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def write_versions(folder: Path) -> None:
    """Write the list of the sites in a folder, and the page that leads to the newest."""
    versions = [
        path.parent.name for path in folder.glob("*/search") if _VERSION.match(path.parent.name)
    ]
    versions.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    head = '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
    rows = "".join(f'<li><a href="{version}/index.html">{version}</a></li>' for version in versions)
    title = "<title>Versions of Tessera's documentation</title>"
    (folder / "versions.html").write_text(f"{head}{title}<h1>Versions</h1><ul>{rows}</ul></html>\n")
    lead = f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">'
    (folder / "index.html").write_text(f"{head}{lead}<title>Tessera</title></html>\n")


def configuration(pages: Path, site: Path) -> dict[str, object]:
    """Return MkDocs' configuration."""
    return {
        "site_name": f"Tessera {read_version()}",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "theme": {"name": "mkdocs"},
        "plugins": ["search"],
        "markdown_extensions": ["tables", "fenced_code", {"toc": {"permalink": True}}],
        "nav": navigation(),
        "use_directory_urls": False,
        "strict": True,
        # pages of decisions are in the search, and linked from their index
        "not_in_nav": "/docs/adr/*\n/docs/cudart-support.md\n/docs/rdmacm-support.md\n/deploy/*\n"
        "/SECURITY.md\n/examples/**\n/charts/**\n",
        "validation": {
            # versions.html is written beside the site; tests check the other entries
            "nav": {"not_found": "info"},
            "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "ignore"},
        },
    }


def main(arguments: list[str]) -> int:
    """Build the site; return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python docs/site.py DIRECTORY\n")
        return 2
    folder = Path(arguments[0]).resolve()
    site = folder / read_version()
    with tempfile.TemporaryDirectory(prefix="tessera-docs-") as name:
        pages = Path(name, "pages")
        stage(pages)
        file = Path(name, "mkdocs.yml")
        file.write_text(yaml.safe_dump(configuration(pages, site)), encoding="utf-8")
        status = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", file], check=False
        ).returncode
    if status == 0:
        write_versions(folder)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
