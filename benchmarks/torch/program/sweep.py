"""Compare PyTorch's operators on the device with the CPU, with the samples of PyTorch's own OpInfo.

Runs in an environment with PyTorch, as ``python sweep.py OUT [--dtype NAME] [--samples N]
[--calls N] [--sample N] [--seed N] [OPERATOR...]``. It appends one line of JSON for each operator;
before one it writes its name to ``OUT.running``. The operator ``used`` stands for those that
programs use most. With several calls the last one is compared: calls that come again take another
way to their kernels.
"""

import argparse
import itertools
import json
import random
import re
import signal
import sys
import warnings
from pathlib import Path

import torch
from frequent import USED
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from tessera_torch import counts
from tessera_torch.warm.progress import follow

LIMIT_S = 120  # of the process's CPU time, which other programs' load does not change
LIMIT_OF_ALL_S = 900  # for all samples of an operator
WALL_LIMIT_S = 3600  # for one that waits and computes nothing
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 5e-2}  # of others 1e-4
# The CPU may round more often in these than the device, so float64 decides.
_ROUNDED = (torch.float16, torch.bfloat16, torch.float32)
_RANDOM = re.compile(
    r"rand|dropout|bernoulli|multinomial|normal_|^normal|uniform|exponential|geometric|cauchy"
    r"|log_normal|empty|rrelu|lowrank|poisson|new_empty|fractional_max_pool"
    r"|multi_head_attention_forward"  # samples with dropout
)
_LIBRARY = re.compile(
    r"CUFFT|cuFFT|cusolver|CUSOLVER|CUBLAS_STATUS_NOT_SUPPORTED|cublas|cusparse|CUDNN|cuDNN|curand"
    r"|MAGMA|NVRTC|nvrtc|jiterator"
)
_KERNEL = re.compile(r"no kernel image|named symbol not found|invalid device function|error 209")


_CPU_ONLY = "PyTorch has it for the CPU only"
_NOT_COMPARED = {
    "sparse.mm.reduce": _CPU_ONLY,
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": _CPU_ONLY,
}
# Without training, CUDA returns statistics after the first result, and the CPU does not.
_ONE_RESULT = {"native_batch_norm", "_native_batch_norm_legit"}


# Vectors up to a sign, which OpInfo's own function of the results removes.
_UP_TO_SIGNS = {"linalg.eig", "linalg.eigh", "linalg.svd", "svd"}
# Indices of equal elements may differ; numbers of these types have many.
_UNORDERED = {"argsort": 0, "sort": 1, "topk": 1, "msort": 1}


# Eigenvalues have no order, and each comes with a column of the second result.
_IN_ANY_ORDER = {"linalg.eig", "linalg.eigvals"}


class TimeLimit(Exception):
    """An operator took too long."""


def key_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def on(device, tree, name=""):
    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return torch.device(device) if leaf in ("cpu", torch.device("cpu")) else leaf
        if name == "tensor_split" and leaf.dtype == torch.int64:
            return leaf  # indices have to stay on the CPU
        if name == "as_strided":  # it reads memory around a view
            whole = torch.empty(0, dtype=leaf.dtype).set_(leaf.untyped_storage())
            strides, offset = leaf.stride(), leaf.storage_offset()
            moved = whole.to(device).as_strided(leaf.shape, strides, offset)
        else:
            moved = leaf.detach().to(device)
        return moved.requires_grad_(leaf.requires_grad)

    return tree_map(move, tree)


def arrange(leaves):
    """Return eigenvalues in one order, and their vectors in the same."""
    values = leaves[0].detach().cpu().to(torch.complex128)
    keys = (values.real * 1e3).round() * 1e6 + values.imag
    order = keys.argsort(-1).to(leaves[0].device)
    return [
        torch.take_along_dim(leaf, order if leaf.dim() == order.dim() else order[..., None, :], -1)
        for leaf in leaves
    ]


def compute(op, sample, backward):
    """Return the results, and the gradients of the inputs."""
    results = op(sample.input, *sample.args, **sample.kwargs)
    if sample.output_process_fn_grad is not None and (backward or op.name in _UP_TO_SIGNS):
        results = sample.output_process_fn_grad(results)
    leaves = [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    gradients = []
    if backward:
        input_leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
        inputs = [
            leaf for leaf in input_leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        outputs = [leaf for leaf in leaves if leaf.requires_grad]
        if inputs and outputs:
            seeds = [torch.ones_like(leaf) for leaf in outputs]
            gradients = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)
    if op.name in _UNORDERED and sample.input.dtype != torch.float32:
        leaves = leaves[: _UNORDERED[op.name]]
    if op.name in _ONE_RESULT:
        leaves = leaves[:1]
    if op.name in _IN_ANY_ORDER:
        leaves = arrange(leaves)
    values = [leaf for leaf in tree_leaves(results) if not isinstance(leaf, torch.Tensor)]
    return leaves, list(gradients), values


def differ(expected, actual, is_random, narrowest=1e-4):
    """Return how two results differ, or an empty text."""
    for expected_leaf, actual_leaf in zip(expected, actual, strict=True):
        if expected_leaf is None or actual_leaf is None:
            if expected_leaf is not actual_leaf:
                return "one gradient is missing"
            continue
        if expected_leaf.shape != actual_leaf.shape or expected_leaf.dtype != actual_leaf.dtype:
            return (
                f"{tuple(actual_leaf.shape)} {actual_leaf.dtype}"
                f" for {tuple(expected_leaf.shape)} {expected_leaf.dtype}"
            )
        if is_random:
            continue
        tolerance = TOLERANCES.get(expected_leaf.dtype, narrowest)
        try:
            torch.testing.assert_close(
                actual_leaf.detach().cpu(), expected_leaf.detach().cpu(),
                rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False,
            )  # fmt: skip
        except AssertionError as err:
            return str(err).replace("\n", " ")[:300]
    return ""


def differ_from_double(op, sample, backward, actual, tolerance):
    """Return how results differ from the CPU's in double precision, which narrow types miss."""

    def widen(leaf):
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _ROUNDED:
            return leaf.detach().to(torch.float64).requires_grad_(leaf.requires_grad)
        return torch.float64 if isinstance(leaf, torch.dtype) and leaf in _ROUNDED else leaf

    wide = type(sample)(
        tree_map(widen, sample.input), args=tree_map(widen, sample.args),
        kwargs=tree_map(widen, sample.kwargs),
        output_process_fn_grad=sample.output_process_fn_grad,
    )  # fmt: skip
    expected = compute(op, wide, backward)
    for exact, actual_leaves in zip(expected[:2], actual[:2], strict=True):
        narrow = [
            exact_leaf.to(actual_leaf.dtype)
            if exact_leaf is not None and exact_leaf.is_floating_point()
            else exact_leaf
            for exact_leaf, actual_leaf in zip(exact, actual_leaves, strict=True)
        ]
        difference = differ(narrow, actual_leaves, False, tolerance)
        if difference:
            return difference
    return ""


def classify(err):
    text = f"{type(err).__name__}: {err}".replace("\n", " ")[:400]
    if isinstance(err, NotImplementedError) and "Tessera" in text:
        return "refused", text
    if isinstance(err, TimeLimit):
        return "time", text
    if _LIBRARY.search(text):
        return "library", text
    if _KERNEL.search(text):
        return "kernel", text
    return "error", text


def compute_reference(op, sample):
    """Return OpInfo's own reference, which computes with NumPy's arrays."""
    numpy_inputs = tree_map(
        lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf,
        (sample.input, sample.args, sample.kwargs),
    )
    results = op.ref(numpy_inputs[0], *numpy_inputs[1], **numpy_inputs[2])
    results = results if isinstance(results, tuple) else (results,)
    return [torch.as_tensor(array) for array in results], [], []


def compute_again(op, sample, backward, calls):
    """Return what the last of some equal calls computes; each has its own copy of the sample."""
    for _ in range(calls):
        moved = type(sample)(
            on("cuda", sample.input, op.name), args=on("cuda", sample.args, op.name),
            kwargs=on("cuda", sample.kwargs, op.name),
            output_process_fn_grad=sample.output_process_fn_grad,
        )  # fmt: skip
        actual = compute(op, moved, backward)
    torch.cuda.synchronize()
    return actual


def run(op, direction, dtype, calls, most_samples):
    """Return the outcome of one operator in one direction and one type, of the first samples."""
    if key_of(op) in _NOT_COMPARED:
        return "none", _NOT_COMPARED[key_of(op)]
    backward = direction == "backward"
    torch.manual_seed(0)
    every = op.sample_inputs("cpu", dtype, requires_grad=backward)
    samples = list(itertools.islice(every, most_samples or None))
    reason = "no sample"
    compared = 0
    for number, sample in enumerate(samples):
        try:
            if op.name.startswith("jiterator"):
                expected = compute_reference(op, sample)
            else:
                expected = compute(op, sample, backward)
        except TimeLimit:
            raise
        except Exception as err:
            reason = f"the CPU: {err}"[:200]
            continue
        compared += 1
        is_random = bool(_RANDOM.search(op.name) or sample.kwargs.get("dropout_p"))
        try:
            actual = compute_again(op, sample, backward, calls)
        except Exception as err:
            outcome, text = classify(err)
            return outcome, f"sample {number}: {text}"
        exact = not any(isinstance(value, float) for value in expected[2])
        if exact and not is_random and expected[2] != actual[2]:
            return "wrong", f"{actual[2]} for {expected[2]}"[:300]
        tolerance = TOLERANCES.get(dtype, 1e-4)  # results of float32 may be of narrower numbers
        difference = differ(expected[0], actual[0], is_random, tolerance) or differ(
            expected[1], actual[1], is_random, tolerance
        )
        if difference and dtype in _ROUNDED and not is_random:
            difference = differ_from_double(op, sample, backward, actual, tolerance)
        if difference:
            return "wrong", f"sample {number}: {difference}"
    return ("right", "") if compared else ("none", reason)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=2, help="of an operator; 0: all")
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0, help="of the operators; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--commit", help="of Tessera, for the record of each operator")
    parser.add_argument("operators", nargs="*")
    options = parser.parse_intermixed_args()
    out, dtype = options.out, getattr(torch, options.dtype)
    chosen = set(options.operators)
    if "used" in chosen:
        chosen.update(USED)
    warnings.simplefilter("ignore")
    finished_names = set()
    if out.exists():
        finished_names = {json.loads(line)["name"] for line in out.read_text().splitlines()}

    def stop(_number, _frame):
        raise TimeLimit("the limit of CPU time, or an hour")

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    selected_operators = [
        op
        for op in sorted(op_db, key=key_of)
        if (not chosen or op.name in chosen or key_of(op) in chosen)
        and dtype in op.supported_dtypes("cuda")
    ]
    if options.sample:
        selected_operators = random.Random(options.seed).sample(
            selected_operators, min(options.sample, len(selected_operators))
        )
    pending_operators = [op for op in selected_operators if key_of(op) not in finished_names]
    for op in follow(pending_operators, "operators"):
        name = key_of(op)
        Path(f"{out}.running").write_text(name)
        record = {"name": name}
        if options.commit:
            record["commit"] = options.commit
        compiled_count = counts.COMPILED.total()
        on_cpu = counts.ON_CPU.total()
        for direction in ("forward", "backward"):
            if direction == "backward" and not op.supports_autograd:
                continue
            if direction == "backward" and dtype not in op.supported_backward_dtypes("cuda"):
                continue
            signal.alarm(WALL_LIMIT_S)
            signal.setitimer(signal.ITIMER_PROF, LIMIT_S if options.samples else LIMIT_OF_ALL_S)
            try:
                record[direction], reason = run(
                    op, direction, dtype, options.calls, options.samples
                )
            except Exception as err:
                record[direction], reason = classify(err)
            finally:
                signal.alarm(0)
                signal.setitimer(signal.ITIMER_PROF, 0)
            if reason:
                record[f"{direction} reason"] = reason
        record["kernels"] = counts.COMPILED.total() - compiled_count
        record["on cpu"] = counts.ON_CPU.total() - on_cpu
        with out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        try:
            torch.cuda.synchronize()
        except Exception:
            return 3  # the context has failed: a new process goes on
    Path(f"{out}.running").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    import os

    os._exit(status)
