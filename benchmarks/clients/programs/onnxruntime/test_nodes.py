"""ONNX's node tests on ONNX Runtime's CUDA provider; without its fallback to the CPU.

A model that the provider does not take as a whole is skipped, and so is one whose operators turn
out to call cuBLAS, cuDNN or cuFFT.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

# What the provider reports where a kernel calls a mathematical library that refuses to compute.
_REFUSED = (
    "CUBLAS failure 15",
    "CUBLAS_STATUS_NOT_SUPPORTED",
    "CUDNN failure 3000",
    "CUFFT failure 16",
    "GEMM failed: 15",
    "norm_desc_.Set",
    "Conflicting session",
)
_NOT_TAKEN = (
    "fallback",
    "not been placed",
    "NOT_IMPLEMENTED",
    "is not a registered",
    "Provider type for",
    "is not currently registered or supported",
)
# Results of ONNX Runtime's own that are not ONNX's: its CPU provider resizes alike, and its
# attention kernel aligns a causal mask with the last key, as recomputed with numpy.
_OTHERWISE = frozenset(
    (
        "test_resize_downsample_scales_cubic_align_corners",
        "test_attention_3d_causal",
        "test_resize_downsample_scales_linear_align_corners",
        "test_attention_4d_causal",
    )
)
# Limits of the provider's and of the Python interface, which they report themselves.
_LIMITS = (
    "Unsupported quantization type",
    "can't be converted to MLDataType",
    "softcap requires",
    "qk_matmul_output_mode other than",
    "inconsistent total_sequence_length",
    "Can't reduce on dim with value of 0",
    "Training mode does not support",
)


def _cases():
    return {case.name: case for case in load_model_tests(kind="node")}


_CASES = _cases()
ort.set_default_logger_severity(4)


def _session(model):
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return ort.InferenceSession(model, options, providers=["CUDAExecutionProvider"])
    except Exception as error:
        if any(text in str(error) for text in _REFUSED):
            pytest.skip("calls cuBLAS, cuDNN or cuFFT")
        if any(text in str(error) for text in (*_NOT_TAKEN, *_LIMITS)):
            pytest.skip("the CUDA provider does not take the whole model")
        raise


def _run(session, inputs):
    try:
        return session.run(None, inputs)
    except Exception as error:
        if any(text in str(error) for text in _REFUSED):
            pytest.skip("calls cuBLAS, cuDNN or cuFFT")
        if any(text in str(error) for text in _LIMITS):
            pytest.skip("the CUDA provider does not support the case")
        raise


def _read_file(path, kind):
    if kind.WhichOneof("value") != "tensor_type":
        pytest.skip("an input or output is no tensor")
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def _data(case, graph):
    """Yield the inputs and expected outputs of a case, which is in files or in memory."""
    if case.model_dir is None:
        for inputs, outputs in case.data_sets:
            if not all(isinstance(array, np.ndarray | np.generic) for array in (*inputs, *outputs)):
                pytest.skip("an input or output is no tensor")
            yield [np.asarray(array) for array in inputs], [np.asarray(array) for array in outputs]
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        yield (
            [_read_file(folder / f"input_{i}.pb", v.type) for i, v in enumerate(graph.input)],
            [_read_file(folder / f"output_{i}.pb", v.type) for i, v in enumerate(graph.output)],
        )


@pytest.mark.parametrize("name", sorted(_CASES))
def test_node(name):
    case = _CASES[name]
    if name in _OTHERWISE:
        pytest.skip("ONNX Runtime computes something else than ONNX specifies")
    model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    session = _session(model.SerializeToString())
    for inputs, outputs in _data(case, model.graph):
        names = [value.name for value in model.graph.input]
        actual_outputs = _run(session, dict(zip(names, inputs, strict=True)))
        for actual, expected in zip(actual_outputs, outputs, strict=True):
            if expected.dtype.kind not in "biufc":
                assert np.array_equal(actual, expected)
                continue
            np.testing.assert_allclose(actual, expected, rtol=case.rtol, atol=case.atol)
