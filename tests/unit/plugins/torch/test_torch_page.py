"""The table of docs/pytorch.md has the recorded outcomes."""

import json

from benchmarks.torch import other_types, table


def test_the_page_has_the_recorded_outcomes():
    assert table.page() == table.PAGE.read_text(encoding="utf-8")


def test_an_operator_is_named_once_with_its_outcome(tmp_path):
    lines = [
        {"name": "abs", "forward": "died"},
        {"name": "abs", "forward": "right", "backward": "right", "kernels": 1, "on cpu": 0},
        {"name": "svd", "forward": "refused", "backward": "refused"},
        {"name": "lgamma", "forward": "right", "backward": "refused"},
    ]
    out = tmp_path / "operators.jsonl"
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = table.render(table.read(out))
    assert "| right | 2 | 1 |" in text, "the last outcome counts"
    assert "| wrong | 0 | 0 |" in text
    assert "**refused, forward**: `svd`." in text
    assert "**refused, backward**: `lgamma`." in text


def test_a_record_keeps_operators_that_were_not_compared_again(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RECORDED", tmp_path / "recorded.json")
    _record(table.RECORDED)
    kept = json.loads(table.RECORDED.read_text())["operators"]
    assert kept == [
        {"commit": "one", "name": "abs", "forward": "right"},
        {"commit": "two", "name": "add", "forward": "right", "backward": "wrong"},
    ]
    text = table.section()
    assert "one (1), two (1)" in text
    assert "2 take float32, and 1 of these (50.0%) are right" in text, "add's gradient is wrong"


def test_a_type_has_a_row_with_its_shares_and_what_is_not_right(tmp_path, monkeypatch):
    monkeypatch.setattr(other_types, "FOLDER", tmp_path / "recorded")
    _record(other_types.path_of("float16"))
    _record(other_types.path_of("bool"))
    rows = other_types.section().splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| float16", "| bool"]
    shares = "2 of 2 | 0 of 1 | `add` (backward wrong) | one (1), two (1) |"
    assert rows[0].endswith(shares), "without the outcome that a later one replaced"


def _record(recorded):
    table.record(
        recorded,
        [{"name": "abs", "forward": "right"}, {"name": "add", "forward": "died"}],
        "one",
    )
    table.record(
        recorded,
        [{"name": "add", "forward": "right", "backward": "wrong", "kernels": 2}],
        "two",
    )
