"""CuTe DSL's tutorials for compute capability 10.0, ``tcgen05`` with TMA, against NumPy."""

import numpy as np
import pytest
from exporter import export
from matrices import multiply


@pytest.mark.parametrize("tutorial", ["0", "1", "2", "3_1", "5"])
def test_fp16_gemm(device, tmp_path, tutorial):
    kernel = export(tmp_path, "sm_100a", f"blackwell_gemm-{tutorial}")

    def parameters(a, b, c, product):
        # the first one has the flags of the product, all of which are off at launch
        return bytes(kernel.parameters[0]), a, b, c or product

    actual_product, expected = multiply(device, kernel, parameters)
    np.testing.assert_allclose(actual_product, expected, rtol=1e-3, atol=1e-3)
