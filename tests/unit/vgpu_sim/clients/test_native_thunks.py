"""Implementations that are generated for a library above the driver."""

from pathlib import Path

import pytest

from vgpu_sim.clients.codegen import library, runtime_page, thunks

LIBRARY = """
majors = [1, 2]
soname = "libtop.so.{major}"
node = "libtop.so.{major}"
driver = "below"
header = "top.h"
status = "int"
unsupported = "NOPE"
page = "top.md"
title = "Top"
noun = "top([A-Z]+[a-z]*)"
version = ""
[variants]
stream = "stream_t"
per_thread = "PER_THREAD"
needs = "cuQuery_ptsz"
"""
DRIVER = """
functions = [
  { name = "cuFill", class = "async", prototype = "void *p, unsigned char v, stream_t s" },
  { name = "cuLater" },
  { name = "cuQuery", class = "local", prototype = "stream_t s" },
  { name = "cuQuery", symbol = "cuQuery_ptsz", stream = "ptsz" },
]
errors = []
"""
FILL = '{ name = "topFill", class = "async", prototype = "void *p, int v, stream_t s", driver = "cuFill", args = "p, (unsigned char)v, s" }'
ERRORS = 'errors = [{ code = 8, name = "NOPE", text = "no" }]'


def load(folder: Path, *rows: str, major: int = 2) -> library.Library:
    """Return a library with these lines of functions.toml."""
    (folder / "top").mkdir(exist_ok=True)
    (folder / "below").mkdir(exist_ok=True)
    (folder / "below/functions.toml").write_text(DRIVER)
    (folder / "top/library.toml").write_text(LIBRARY)
    (folder / "top/functions.toml").write_text(f"functions = [{', '.join(rows)}]\n{ERRORS}\n")
    return library.load(folder / "top", major)


def test_a_thunk_calls_the_driver_with_its_arguments(tmp_path: Path) -> None:
    text = thunks.render_thunks(load(tmp_path, FILL))
    assert "extern int cuFill(void *, unsigned char, stream_t);" in text
    assert (
        "tsr_topFill(void * p, int v, stream_t s) { return cuFill(p, (unsigned char)v, s); }"
        in text
    )


def test_a_stream_variant_calls_the_plain_function(tmp_path: Path) -> None:
    variant = '{ name = "topFill", symbol = "topFill_ptsz", stream = "ptsz" }'
    made = load(tmp_path, FILL, variant)
    text = thunks.render_thunks(made)
    assert "return tsr_topFill(p, v, s ? s : PER_THREAD);" in text
    assert all(made.is_supported(one) for one in made.functions)


def test_a_function_is_supported_when_its_driver_functions_are(tmp_path: Path) -> None:
    later = '{ name = "topLater", class = "local", prototype = "int a", driver = "cuLater" }'
    needing = (
        '{ name = "topBoth", class = "local", prototype = "int a", needs = ["cuFill", "cuLater"] }'
    )
    made = load(tmp_path, FILL, later, needing)
    assert [made.is_supported(one) for one in made.functions] == [True, False, False]
    assert made.page
    page = runtime_page.render_page([made], made.page, tmp_path)
    assert "`libtop.so.2` exports 3 functions; 1 are supported." in page
    assert "| `topBoth` | `cuLater` |" in page


def test_a_line_is_for_the_versions_that_it_names(tmp_path: Path) -> None:
    only = '{ name = "topNew", majors = [2] }'
    assert [len(load(tmp_path, FILL, only, major=major).functions) for major in (1, 2)] == [1, 2]
    soname = load(tmp_path, FILL, major=1).soname
    assert soname == "libtop.so.1"
    assert [one.folder for one in library.load_each(tmp_path / "top")] == ["top1", "top2"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (FILL.replace("p, (unsigned char)v, s", "p, 1, s"), "no type for argument '1'"),
        (FILL.replace("p, (unsigned char)v, s", "p, s"), "cuFill has 3 parameters"),
        (FILL.replace("cuFill", "cuAbsent"), "the driver has no cuAbsent"),
    ],
)
def test_a_wrong_line_is_refused(tmp_path: Path, row: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        thunks.render_thunks(load(tmp_path, row))


def test_two_lines_agree_on_the_types_of_a_driver_function(tmp_path: Path) -> None:
    other = FILL.replace("topFill", "topOther").replace("(unsigned char)v", "v")
    with pytest.raises(ValueError, match="pass different types to cuFill"):
        thunks.render_thunks(load(tmp_path, FILL, other))
