"""``tessera cc`` reads options from nvcc's variables."""

import pytest
from click.testing import CliRunner

from vgpu_sim.cli import cc
from vgpu_sim.sdk.driver import INCLUDE


@pytest.mark.parametrize("place", ["PREPEND", "APPEND"])
def test_options_of_a_variable_are_read(place: str) -> None:
    environment = {f"NVCC_{place}_FLAGS": "--include-dir -DN='a b'"}
    result = CliRunner(env=environment).invoke(cc.command, [])
    assert (result.exit_code, result.stdout) == (0, f"{INCLUDE}\n")


def test_a_variable_with_an_open_quotation_is_named() -> None:
    environment = {"NVCC_APPEND_FLAGS": "-DN='a"}
    result = CliRunner(env=environment).invoke(cc.command, ["a.cu"])
    assert result.exit_code == 1
    assert result.stderr == "tessera cc: error: NVCC_APPEND_FLAGS: No closing quotation\n"
