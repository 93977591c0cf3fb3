"""CuTe DSL's dense GEMM for compute capability 9.0, ``wgmma`` with TMA, against NumPy."""

import numpy as np
import pytest
from exporter import export
from matrices import multiply


@pytest.mark.parametrize("blocks", [1, 2])
def test_dense_gemm(device, tmp_path, blocks):
    kernel = export(tmp_path, "sm_90a", f"hopper_gemm-{blocks}")
    actual_product, expected = multiply(device, kernel, lambda a, b, c, data: (a, b, c, bytes(1)))
    np.testing.assert_allclose(actual_product, expected, rtol=1e-3, atol=1e-3)
