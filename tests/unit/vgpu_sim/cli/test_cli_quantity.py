"""Sizes on the command line, as Kubernetes writes them."""

import pytest
from click.testing import CliRunner

from vgpu_sim.cli import quantity
from vgpu_sim.cli.run import command


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("4294967296", 4 << 30),
        ("4Gi", 4 << 30),
        ("4G", 4 * 10**9),
        ("512Mi", 512 << 20),
        ("1.5Gi", 3 << 29),
        ("2k", 2000),
        ("2Ki", 2048),
        ("1Ti", 1 << 40),
        ("1E", 10**18),
        ("0.3", 1),
        ("1.0000001Ki", 1025),
    ],
)
def test_a_size(text: str, size: int) -> None:
    assert quantity.parse(text) == size


@pytest.mark.parametrize("text", ["", "4g", "4gb", "4 Gi", "-1", "1e9", "Gi", "4K", "1.", "1" * 20])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not a size such as 4Gi, 4G, 512Mi or a number of bytes"
    ):
        quantity.parse(text)


def test_nothing_is_no_size() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        quantity.parse("0Gi")


@pytest.mark.parametrize("size", ["4g", "0"])
def test_a_run_refuses_it_as_wrong_usage(size: str) -> None:
    arguments = ["--board", "h100-80gb", "--slice", "1g.10gb", "--budget", size, "--", "true"]
    result = CliRunner().invoke(command.command, arguments)
    assert result.exit_code == 2
    assert "Invalid value for '--budget'" in result.output
