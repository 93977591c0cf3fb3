"""Triton's Gluon tutorials: their own tests, of compute capability 9.0 and 10.0, at small sizes."""

import importlib
import os
import sys
from pathlib import Path

import pytest
import torch
from triton._C.libtriton import nvidia

_FOLDER = Path(os.environ["TRITON_TUTORIALS"]) / "gluon"
_NAMES = "M", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"
_SMALL = dict(zip(_NAMES, (208, 416, 304, 64, 64, 64), strict=True))
_WIDE = _SMALL | {"M": 256, "N": 512, "K": 192, "BLOCK_M": 128, "BLOCK_N": 256}
_FLAT = {"xnumel": 200, "XBLOCK": 64}
_PLANE = {"xnumel": 100, "ynumel": 200, "XBLOCK": 32, "YBLOCK": 64}
_ROWS = {"BLOCK_X": 8, "BLOCK_Y": 16, "y_offset": 48, "X_MAX": 1024, "Y_MAX": 1024}
_TILES = {"M": 256, "N": 256, "K": 256, "BLOCK_M": 128, "BLOCK_N": 128}
_SCALED = {"M": 128, "N": 128, "K": 256, "a_format": "mxfp8", "b_format": "mxfp4"}
_CONV = {"N": 1, "H": 16, "W": 16, "Ci": 64, "Co": 64, "R": 3, "S": 3, "stride": 1, "padding": 1}
_CASES = (
    ("01", "copy_scalar", {}),
    ("01", "memcpy", _FLAT),
    ("02", "memcpy_1d", _FLAT | {"num_warps": 4}),
    ("02", "memcpy_2d", _PLANE | {"XBLOCK": 128, "YBLOCK": 256, "transposed": True,
                                  "num_warps": 4}),
    ("02", "memcpy_2d_inout", {"xnumel": 300, "ynumel": 400, "transpose_in": True,
                               "transpose_out": False}),
    ("03", "memcpy_1d_cpasync", {"xnumel": 200, "XBLOCK": 128}),
    ("03", "elementwise_add", _PLANE),
    ("03", "elementwise_add_cpasync", _PLANE),
    ("03", "elementwise_add_pipelined", _PLANE | {"num_buffers": 2}),
    ("04", "memcpy_1d_tma", _FLAT),
    ("04", "elementwise_add_pipelined", _PLANE | {"num_buffers": 3}),
    ("05", "small_mma", {"M": 64, "N": 32, "K": 32, "LHS_IN_REG": True, "INSTR_SHAPE_N": 16,
                         "num_warps": 4}),
    ("05", "small_mma", {"M": 64, "N": 256, "K": 128, "LHS_IN_REG": False, "INSTR_SHAPE_N": 64,
                         "num_warps": 8}),
    ("05", "blocked_matmul", _SMALL | {"TRANSPOSE_B": True, "num_warps": 4}),
    ("05", "blocked_matmul_pipelined", _SMALL | {"num_warps": 8}),
    ("06", "tmem_example_kernel", {"M": 64, "N": 64, "num_warps": 4}),
    ("06", "tmem_example_kernel", {"M": 256, "N": 128, "num_warps": 8}),
    ("06", "small_mma", {"M": 128, "N": 128, "K": 128, "LHS_IN_TMEM": True, "USE_COMMIT": False,
                         "num_warps": 4}),
    ("06", "small_mma", {"M": 64, "N": 128, "K": 128, "LHS_IN_TMEM": False, "USE_COMMIT": True,
                         "num_warps": 4}),
    ("06", "blocked_matmul", _SMALL | {"TRANSPOSE_B": True, "num_warps": 4}),
    ("06", "blocked_matmul_pipelined", _SMALL | {"num_warps": 4}),
    ("07", "pipelined_matmul", _WIDE | {"num_buffers": 3, "num_warps": 8}),
    *(("07", "persistent_matmul", _WIDE | {"num_buffers": 2, "num_warps": 8, "SchedulerImpl": n})
      for n in range(3)),
    ("07", "persistent_matmul_pipelined",
     _SMALL | {"num_buffers": 3, "num_warps": 4, "SchedulerImpl": 1}),
    ("08", "elementwise_add_warp_specialized",
     _PLANE | {"num_load_buffers": 2, "num_store_buffers": 2, "num_warps": 4}),
    ("08", "matmul_warp_specialized",
     _WIDE | {"num_buffers": 2, "SUBTILE_FACTOR": 4, "num_warps": 4, "SchedulerImpl": 0}),
    ("09", "async_gather", _ROWS | {"dtype": torch.bfloat16}),
    ("09", "async_scatter", _ROWS | {"dtype": torch.float32}),
    ("09", "matmul_fused_gather_scatter", _TILES | {"BLOCK_K": 64, "num_buffers": 3}),
    ("10", "tcgen05_copy_nvmma_shared",
     {"M": 128, "N": 64, "TMEM_BLOCK_N": 32, "dtype": torch.float32, "swizzle": 128}),
    ("10", "matmul_accumulate",
     _TILES | {"BLOCK_K": 64, "num_buffers": 3, "dtype": torch.float16}),
    ("11", "simple_mma_scaled", _SCALED | {"BLOCK_N": 64, "BLOCK_K": 128}),
    ("11", "mma_scaled_contig", _SCALED | {"BLOCK_N": 64, "BLOCK_K": 128}),
    ("11", "mma_scaled_packed_block", _SCALED | {"BLOCK_N": 128, "BLOCK_K": 128}),
    ("11", "mma_scaled_tcgen05_copy",
     _SCALED | {"BLOCK_N": 128, "BLOCK_K": 128, "a_format": "nvfp4", "b_format": "nvfp4"}),
    *(("11", "mma_scaled_pipelined",
       _SCALED | {"M": 256, "N": 256, "b_format": "mxfp8",
                  "impl_kernel": f"mma_scaled_{variant}_kernel"})
      for variant in ("pipelined", "warp_specialized")),
    *(("12", "op", {"M": 304, "N": 304, "K": 128, "use_clc": clc}) for clc in (True, False)),
    *(("13", f"tma_im2col_{variant}", {})
      for variant in ("simple", "padded", "offset", "multi_batch", "multi_batch_padded")),
    ("13", "conv2d_tma_im2col", _CONV),
    ("13", "conv2d_tma_im2col", _CONV | {"N": 2, "R": 1, "S": 1, "stride": 2, "padding": 0}),
    ("14", "multicta_softmax_f32", {"M": 16, "N": 256}),
    ("14", "two_cta_tcgen05", {}),
    ("14", "tma_multicast_copy", {}),
    ("14", "tma_tcgen05", {}),
    ("14", "matmul_multicta", {}),
)  # fmt: skip


@pytest.fixture
def load_gluon(monkeypatch):
    """Return a function that imports a tutorial, which may import others, without cuBLAS."""
    monkeypatch.setattr(nvidia.cublas, "CublasLt", lambda workspace: None)
    monkeypatch.setattr(sys, "path", [str(_FOLDER), *sys.path])

    def load(number):
        (source,) = _FOLDER.glob(f"{number}-*.py")
        return importlib.import_module(source.stem)

    return load


@pytest.fixture
def fresh_knobs():
    from triton._internal_testing import _fresh_knobs_impl

    begin, reset = _fresh_knobs_impl(skipped_attr={"build", "nvidia", "amd"})
    yield begin()
    reset()


@pytest.mark.parametrize(
    ("number", "name", "arguments"), _CASES, ids=[f"{number}-{name}" for number, name, _ in _CASES]
)
def test_gluon(load_gluon, fresh_knobs, number, name, arguments):
    module, arguments = load_gluon(number), dict(arguments)
    test = getattr(module, f"test_{name}")
    for mark in test.pytestmark if hasattr(test, "pytestmark") else ():
        if mark.name == "skipif" and mark.args[0]:
            pytest.skip(mark.kwargs["reason"])
    if "SchedulerImpl" in arguments:
        schedulers = getattr(module, "schedulers", None) or module.t7.schedulers
        arguments["SchedulerImpl"] = schedulers[arguments["SchedulerImpl"]]
    if "impl_kernel" in arguments:
        arguments["impl_kernel"] = getattr(module, arguments["impl_kernel"])
    if number == "09" and name.startswith("async"):
        arguments["fresh_knobs"] = fresh_knobs
    test(**arguments)
