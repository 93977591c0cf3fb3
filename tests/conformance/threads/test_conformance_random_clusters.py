"""Random kernels for clusters: NumPy, the interpreter and the JIT agree, and all accesses are proved.

``TESSERA_CLUSTER_KERNELS`` is the number of kernels.
"""

import os

import numpy as np
import pytest

from support.execution import prover
from support.execution.both_backends import compare, compiler
from support.kernels.random_kernels import clusters
from vgpu_sim.compiler import compile_ptx

_KERNELS = int(os.environ.get("TESSERA_CLUSTER_KERNELS", "24"))
_PARTS = 8


@pytest.mark.parametrize("part", range(_PARTS))
def test_random_kernels_have_the_results_of_numpy(part: int) -> None:
    for seed in range(part, _KERNELS, _PARTS):
        kernel = clusters.generate(seed)
        module = compile_ptx(kernel.text, capability=(9, 0))
        block = (kernel.threads, 1, 1)
        legal = list(compiler().legal_plans(module, block))
        plans = [None, legal[seed % len(legal)]]
        for plan in plans:
            text = compiler().emit_llvm(module, module.functions[0], block, plan)
            assert prover.prove(text) > 0
        size = kernel.expected.nbytes
        (found,) = compare(module, [bytes(size)], kernel.grid, block, plans)
        wanted = kernel.expected.reshape(-1)
        assert np.array_equal(np.frombuffer(found, np.uint32), wanted), kernel.text
