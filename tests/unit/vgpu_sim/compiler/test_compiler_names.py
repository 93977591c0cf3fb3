"""Every name must have a declaration, even in instructions without a list of operands."""

import pytest

from vgpu_sim.compiler import InvalidPtxError, compile_ptx
from vgpu_sim.compiler.legality.signatures import Wanted, signatures

LINES = (
    "multimem.st.async.release.gpu.global.u32 [$], %r1;",
    "multimem.st.async.release.gpu.global.u32 [%d0], $;",
    "tcgen05.shift.cta_group::1.down [$];",
    "multimem.ld_reduce.relaxed.gpu.global.add.u32 $, [%d0];",
    "multimem.ld_reduce.relaxed.gpu.global.add.u32 %r1, [$];",
)


def refusal(line: str) -> str:
    """Return why a file with this instruction is invalid PTX; empty where it is not."""
    source = (
        ".version 9.0\n.target sm_100a\n.address_size 64\n"
        f".entry k() {{ .reg .b32 %r<4>; .reg .b64 %d<4>;\n{line}\nret; }}\n"
    )
    try:
        compile_ptx(source, capability=(10, 0), partial=True)
    except InvalidPtxError as error:
        return error.diagnostics[0].message
    return ""


@pytest.mark.parametrize("line", LINES)
def test_a_name_is_declared_whatever_the_instruction(line: str) -> None:
    opcode, *modifiers = line.split(" ", 1)[0].split(".")
    lists = signatures(opcode, tuple(modifiers))
    assert not lists or lists[0][:1] == (Wanted("rest"),), "this one has a list of operands"
    declared = "%d0" if "[$]" in line else "%r0"
    assert refusal(line.replace("$", declared)) == ""
    assert refusal(line.replace("$", "%nope")) == "'%nope' is not declared"
