"""Decision records: unique numbers, a status and keywords each, an up-to-date index, no dangling number."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "adr" / "README.md"
INDEX = runpy.run_path(str(ROOT / "docs" / "adr_index.py"))
# "ADR 4", "ADRs 4, 19 and 88"
REFERENCE = re.compile(r"\bADRs?[ \n]+(\d+(?:(?:, | and | to | or )\d+)*)")


def test_the_index_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == INDEX["render"](), (
        "run: python docs/adr_index.py > docs/adr/README.md"
    )


def test_numbers_are_unique_and_match_the_file_names() -> None:
    records = INDEX["records"]()
    numbers = [one.number for one in records]
    assert len(set(numbers)) == len(numbers)
    assert [int(one.file.split("-")[0]) for one in records] == numbers


def test_every_record_has_a_known_status_and_keywords() -> None:
    for one in INDEX["records"]():
        assert re.match(r"(accepted|superseded)\b", one.status), one.file
        assert len(one.keywords.split(", ")) >= 2, one.file
        assert len(one.title) <= 90, one.file


def test_every_cited_record_exists(tracked_files: list[str]) -> None:
    numbers = {one.number for one in INDEX["records"]()}
    dangling = []
    for name in tracked_files:
        path = ROOT / name
        if path.suffix not in {".py", ".c", ".h", ".md", ".toml", ".yaml"}:
            continue
        for found in REFERENCE.finditer(path.read_text(encoding="utf-8")):
            cited = {int(number) for number in re.findall(r"\d+", found[1])}
            dangling += [f"{name}: ADR {number}" for number in sorted(cited - numbers)]
    assert dangling == []
