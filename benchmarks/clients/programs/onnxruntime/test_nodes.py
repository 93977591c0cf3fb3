"""ONNX's node tests on ONNX Runtime's CUDA provider; without its fallback to the CPU.

A model that the provider does not take as a whole is skipped, and so are operators that call
cuBLAS or cuDNN.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

# Operators whose CUDA kernels call cuBLAS, cuBLASLt or cuDNN.
_LIBRARIES = frozenset(
    (
        *("Attention", "AveragePool", "BatchNormalization", "Conv", "ConvInteger", "ConvTranspose"),
        *("DFT", "DeformConv", "Det", "Einsum", "GRU", "Gemm", "GlobalAveragePool"),
        *("GlobalMaxPool", "InstanceNormalization", "LRN", "LSTM", "LpPool", "MatMul"),
        *("MatMulInteger", "MaxPool", "MaxUnpool", "QLinearConv", "QLinearMatMul", "RNN", "STFT"),
        "Transpose",
    )
)
_NOT_TAKEN = ("fallback", "not been placed", "NOT_IMPLEMENTED", "is not a registered")


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
        if any(text in str(error) for text in _NOT_TAKEN):
            pytest.skip("the CUDA provider does not take the whole model")
        raise


def _read(path, kind):
    content = path.read_bytes()
    if kind.WhichOneof("value") != "tensor_type":
        pytest.skip("an input or output is no tensor")
    tensor = onnx.TensorProto()
    tensor.ParseFromString(content)
    return numpy_helper.to_array(tensor)


@pytest.mark.parametrize("name", sorted(_CASES))
def test_node(name):
    case = _CASES[name]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    used = {node.op_type for node in model.graph.node} & _LIBRARIES
    if used:
        pytest.skip(f"{', '.join(sorted(used))} uses cuBLAS or cuDNN")
    session = _session(str(folder / "model.onnx"))
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = {
            value.name: _read(data / f"input_{i}.pb", value.type)
            for i, value in enumerate(model.graph.input)
        }
        outputs = session.run(None, inputs)
        for i, (value, actual) in enumerate(zip(model.graph.output, outputs, strict=True)):
            expected = _read(data / f"output_{i}.pb", value.type)
            if expected.dtype.kind not in "biufc":
                assert np.array_equal(actual, expected)
                continue
            np.testing.assert_allclose(actual, expected, rtol=case.rtol, atol=case.atol)
