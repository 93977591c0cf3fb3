"""What ``tessera cc`` corrects of clang's PTX, and which of its failures it explains."""

from pathlib import Path

import pytest

from vgpu_sim.sdk import repairs
from vgpu_sim.sdk.errors import CompileError, KnownFailureError
from vgpu_sim.sdk.steps import Steps

CIRCLE = b"""@a = addrspace(1) global ptr addrspacecast (ptr addrspace(1) @b to ptr), align 8
@b = addrspace(1) global ptr addrspacecast (ptr addrspace(1) @a to ptr), align 8
@_ZN5outer12_GLOBAL__N_13ownE = internal global ptr @_ZN5outer12_GLOBAL__N_13ownE
@_ZL6static = internal global ptr @_ZL6static
@leads = global ptr @a
@ends = global ptr @other
@other = external global ptr
@"a name" = global ptr @"a name"
"""


def test_variables_whose_initializers_lead_back_are_found() -> None:
    assert repairs.find_circular(CIRCLE) == ["a", "a name", "b", "outer::own", "static"]


@pytest.mark.parametrize(("message", "is_known"), [("some known text", True), ("other", False)])
def test_messages_of_known_failures_are_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], message: str, is_known: bool
) -> None:
    steps = Steps(tmp_path, verbose=False)
    with pytest.raises(CompileError) as raised:
        steps.run(["sh", "-c", f"echo {message} >&2; exit 3"], ["known text"])
    assert isinstance(raised.value, KnownFailureError) is is_known
    assert raised.value.status == 3
    assert capfd.readouterr().err == ("" if is_known else f"{message}\n")


@pytest.mark.parametrize(
    "message", ["unsupported library call operation!", 'Undefined external symbol ""']
)
def test_operations_for_which_llvm_has_no_function_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], message: str
) -> None:
    script = f"echo 'fatal error: error in backend: {message}' >&2; exit 70"
    with pytest.raises(CompileError, match=r"^k\.cu: .* divisions of 128-bit integers") as raised:
        repairs.run_clang(Steps(tmp_path), ["sh", "-c", script], tmp_path / "k.ptx", "k.cu")
    assert raised.value.status == 70
    assert capfd.readouterr().err == ""


def test_alignments_of_zero_become_that_of_the_stack() -> None:
    text = b"\talloca.u64 %rd1, %rd2, 0;\n\talloca.u64 %rd3, %rd4, 16;\n"
    assert repairs.correct_ptx(text) == text.replace(b", 0;", b", 8;")
