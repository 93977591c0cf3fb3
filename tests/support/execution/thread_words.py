"""Some words from each thread of a kernel, on which both executors and all legal plans agree."""

import numpy as np

from support.execution import native_launch
from support.execution.both_backends import Bench, compiler
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

BLOCK = 64
_BLOCKS = 2
_PLANS = 4  # the number of legal plans, besides the default and the first tier's


def module(
    variables: str, body: str, words: int = 2, version: str = "8.0", sm: str = "80"
) -> Module:
    """Return a kernel whose threads store ``words`` registers from ``%r0`` on, after ``body``.

    ``%t`` is the thread's number; ``%rd<9>``, ``%r<9>`` and ``%p`` are declared as well.
    """
    stores = "".join(f"st.global.u32 [%out+{4 * n}], %r{n};\n" for n in range(words))
    return compile_ptx(
        f""".version {version}\n.target sm_{sm}\n.address_size 64\n{variables}
        .visible .entry k(.param .u64 out)
        {{ .reg .b64 %out, %rd<9>; .reg .b32 %t, %r<9>; .reg .pred %p;
        ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %out, %t, {4 * words}, %out;
        {body}
        {stores} ret; }}""",
        capability=(10, 0),
    )


def run(made: Module, words: int = 2, block: int = BLOCK) -> list[list[int]]:
    """Return the words of each thread; before the launch the words have another value."""
    assert made.refused == ()
    function, shape = made.functions[0], (block, 1, 1)
    size = -(-max(made.segment_bytes, 1) // 4096) * 4096
    bench = Bench(b"\xab" * (4 * words * block), bytes(size))
    try:
        out, segment = bench.addresses()
        contents = bytearray(size)
        for variable, data in zip(made.variables, made.contents(segment), strict=True):
            contents[variable.offset : variable.offset + len(data)] = data
        bench.begin_with(1, bytes(contents))
        parameters = native_launch.pack(function.parameters, function.parameter_bytes, [out])
        grid = (_BLOCKS, 1, 1)
        want = bench.interpret(made, grid, shape, parameters, segment)
        legal = list(jit.legal_plans(function, shape))
        shares = legal[:: max(1, len(legal) // _PLANS)]
        for plan in [None, *compiler().first_tier(made, shape), *shares]:
            have = bench.execute(made, grid, shape, parameters, plan, segment)
            assert have == want, plan
        rows: list[list[int]] = np.frombuffer(want[0], "<u4").reshape(block, words).tolist()
        return rows
    finally:
        bench.close()
