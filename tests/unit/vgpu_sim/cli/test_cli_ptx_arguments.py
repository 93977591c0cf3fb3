"""Arguments of ``tessera ptx run``: values, buffers, and invalid ones."""

import click
import pytest

from vgpu_sim.cli.ptx.run_command import _argument


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("u32:5", ("u32", 0, "5")),
        ("s64:-5", ("s64", 0, "-5")),
        ("u8:0xff", ("u8", 0, "0xff")),
        ("f32:1.5", ("f32", 0, "1.5")),
        ("f64[8]", ("f64", 8, "")),  # zeros
        ("f32[1024]:1.5", ("f32", 1024, "1.5")),
        ("s32[64]:iota", ("s32", 64, "iota")),
        ("u32[1]", ("u32", 1, "")),
    ],
)
def test_an_argument_is_read(text: str, read: tuple[str, int, str]) -> None:
    assert _argument(text) == read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u32", "'u32' has no value"),
        ("u32[0]", r"'u32\[0\]' has no value"),
        ("u32:", "is not an argument such as"),
        ("u33:5", "is not an argument such as"),
        ("u32[x]:5", "is not an argument such as"),
        ("u32:iota", "iota"),  # only buffers accept iota
        ("u32[0]:iota", "iota"),
        ("u32:x", "x"),
    ],
)
def test_another_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        _argument(text)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_an_integer_fits_its_type_up_to_both_ends(bits: int) -> None:
    ends = {"u": (0, (1 << bits) - 1), "s": (-(1 << bits - 1), (1 << bits - 1) - 1)}
    for sign, (least, greatest) in ends.items():
        for value in (least, greatest):
            assert _argument(f"{sign}{bits}:{value}") == (f"{sign}{bits}", 0, str(value))
        for value in (least - 1, greatest + 1):
            with pytest.raises(click.BadParameter, match=f"does not fit {sign}{bits}"):
                _argument(f"{sign}{bits}:{value}")
