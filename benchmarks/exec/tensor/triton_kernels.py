"""PTX of Triton: ``tessera run --board h100-80gb -- PYTHON -m
benchmarks.exec.tensor.triton_kernels FOLDER``.

PYTHON has Triton (3.9.0 was used). ``FOLDER/attention.ptx`` and ``.json`` are those of the contest
``flash-attention``. ``--tutorial FILE``, Triton's 06-fused-attention.py, adds the backward kernel
``_attn_bwd.ptx`` for the section ``large-module``; its import of torch is satisfied by the stand-in
for clients' tests (PYTHONPATH=benchmarks/clients/programs/numpy_torch).
"""

import argparse
import importlib.util
import json
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ATTENTION = {"rows": 128, "columns": 64, "depth": 64}
_BACKWARD = {
    "BLOCK_M1": 64,
    "BLOCK_N1": 128,
    "BLOCK_M2": 128,
    "BLOCK_N2": 64,
    "BLK_SLICE_FACTOR": 2,
    "HEAD_DIM": 128,
    "CAUSAL": True,
}


@triton.jit
def attention(q, k, v, o, n, scale, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    """Compute attention of one block of queries; ``scale`` is in powers of two."""
    start = tl.program_id(1).to(tl.int64) * n * depth
    own = tl.program_id(0) * rows + tl.arange(0, rows)
    along, each = tl.arange(0, depth), tl.arange(0, columns)
    queries = tl.load(q + start + own[:, None] * depth + along[None, :])
    keys = k + start + each[None, :] * depth + along[:, None]
    values = v + start + each[:, None] * depth + along[None, :]
    row_maxima = tl.full([rows], float("-inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    out = tl.zeros([rows, depth], tl.float32)
    for _ in range(0, n, columns):
        scores = tl.dot(queries, tl.load(keys)) * scale
        larger = tl.maximum(row_maxima, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(row_maxima - larger)
        total = total * shrink + tl.sum(weights, 1)
        out = out * shrink[:, None]
        out = tl.dot(weights.to(tl.float16), tl.load(values), out)
        row_maxima = larger
        keys += columns * depth
        values += columns * depth
    tl.store(o + start + own[:, None] * depth + along[None, :], out / total[:, None])


def _compile(
    function: Any,
    signature: dict[str, str],
    constants: dict[str, object],
    capability: int,
    options: dict[str, int],
) -> Any:
    names = function.arg_names
    types = {name: signature.get(name, "constexpr") for name in names}
    multiples = {
        (names.index(name),): [["tt.divisibility", 16]]
        for name, type_ in signature.items()
        if type_ != "fp32"
    }
    constexprs = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(function, types, constexprs, multiples)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def _write(kernel: Any, folder: Path, name: str) -> None:
    (folder / f"{name}.ptx").write_text(kernel.asm["ptx"])
    facts = {"shared": kernel.metadata.shared, "threads": 32 * kernel.metadata.num_warps}
    (folder / f"{name}.json").write_text(json.dumps(facts))
    print(f"{name}.ptx: {len(kernel.asm['ptx'])} bytes")


def main() -> None:
    """Compile and write the kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tutorial", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pointers = dict.fromkeys("qkv", "*fp16") | {"o": "*fp32", "n": "i32", "scale": "fp32"}
    chosen = {"num_warps": 8, "num_stages": 3}
    _write(_compile(attention, pointers, ATTENTION, 90, chosen), options.folder, "attention")
    if options.tutorial:
        spec = importlib.util.spec_from_file_location("tutorial", options.tutorial)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        types = dict.fromkeys(("Q", "K", "V", "DO", "DQ", "DK", "DV"), "*fp16")
        types |= dict.fromkeys(("M", "D"), "*fp32") | {"sm_scale": "fp32"}
        types |= dict.fromkeys(("stride_z", "stride_h", "stride_tok", "H", "N_CTX"), "i32")
        chosen = {"num_warps": 4, "num_stages": 5}
        constants = _BACKWARD | {"stride_d": 1}
        kernel = _compile(module._attn_bwd, types, constants, 80, chosen)
        _write(kernel, options.folder, "_attn_bwd")


if __name__ == "__main__":
    main()
