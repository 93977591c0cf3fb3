"""Compare PyTorch's operators on the device with the table of CUDA's rules.

Runs in an environment with PyTorch, as ``python rules.py OUT [--dtype NAME]... [--family NAME]...
[OPERATOR...]``. It appends one line of JSON for each row and type, and skips those that are in OUT.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.torch.rules.compare import difference
from benchmarks.torch.rules.eight_bits import EIGHTS, encode
from benchmarks.torch.rules.row import REFUSALS
from benchmarks.torch.rules.table import ROWS

_CONTEXT_FAILED = 3  # the exit status after which a new process goes on
_MOST_REASON = 400
_MOST_LINES = 2  # on stderr, beside the exception of an operator that is refused


def to_torch(operand, device="cuda"):
    """Make the argument that an operand describes."""
    if operand.kind == "number":
        return operand.values.item()
    values = np.array(operand.values)
    if operand.dtype == "bfloat16":  # its bits: a conversion may change the sign of NaN
        upper = (values.view("uint32") >> 16).astype("uint16")
        tensor = torch.from_numpy(np.asarray(upper)).view(torch.bfloat16)
    elif operand.dtype in EIGHTS:
        tensor = torch.from_numpy(encode(values, operand.dtype)).view(getattr(torch, operand.dtype))
    else:
        tensor = torch.from_numpy(values).to(getattr(torch, operand.dtype))
    return tensor if operand.kind == "cpu" else tensor.to(device)


def to_numpy(result):
    """Return a result's type and elements."""
    if isinstance(result, torch.Tensor):
        name = str(result.dtype).removeprefix("torch.")
        values = result.detach().cpu().resolve_conj()
        return name, (values.float() if name in ("bfloat16", *EIGHTS) else values).numpy()
    values = np.asarray(result)
    return {"float64": "float", "int64": "int"}.get(str(values.dtype), str(values.dtype)), values


def call(case, device="cuda"):
    """Evaluate a case's expression, and return its results as a sequence."""
    letters = {
        chr(ord("a") + place): to_torch(operand, device)
        for place, operand in enumerate(case.operands)
    }
    results = eval(case.call, {"torch": torch, "F": F, "DEVICE": device, **letters})
    if isinstance(results, torch.Tensor) or not isinstance(results, list | tuple):
        results = [results]
    return [to_numpy(result) for result in results]


@contextlib.contextmanager
def stderr_lines():
    """Give the lines that the process writes to stderr, compilers in C++ included."""
    lines = []
    sys.stderr.flush()
    previous = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            sys.stderr.flush()
            os.dup2(previous, 2)
            os.close(previous)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()


def compare(case, device="cuda"):
    """Return how a case ended, and why it differs."""
    if case.refused:
        with stderr_lines() as lines:
            outcome, reason = compare_results(case, device)
        if outcome == "refused" and len(lines) > _MOST_LINES:
            return "differs", f"{len(lines)} lines on stderr: {lines[0][:_MOST_REASON]}"
        return outcome, reason
    return compare_results(case, device)


def compare_results(case, device):
    """Return how a case ended, whatever it writes, and why it differs."""
    try:
        results = call(case, device)
    except Exception as err:
        text = f"{type(err).__name__}: {err}".replace("\n", " ")[:_MOST_REASON]
        if case.refused and type(err).__name__ in REFUSALS:
            return "refused", ""
        return "differs", text
    if case.refused:
        return "differs", "computed, and CUDA refuses it"
    if len(results) != len(case.results):
        return "differs", f"{len(results)} results, expected {len(case.results)}"
    for expected, (dtype, values) in zip(case.results, results, strict=True):
        if case.only_type:
            is_same = dtype == expected.dtype and values.shape == expected.choices[0].shape
            reason = "" if is_same else f"{dtype} {values.shape}"
        else:
            reason = difference(expected, dtype, values)
        if reason:
            return "differs", reason
    return "agrees", ""


def run(row, dtype, device):
    """Return the counts and differences of one row's cases in one type."""
    record = {"name": row.name, "dtype": dtype, "agrees": 0, "refused": 0, "elements": 0}
    differences = []
    for case in row.cases(dtype):
        outcome, reason = compare(case, device)
        if outcome == "differs":
            differences.append({"call": case.call, "label": case.label, "reason": reason})
        else:
            record[outcome] += 1
            record["elements"] += sum(result.choices[0].size for result in case.results)
    record["differs"] = differences
    return record


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", action="append", default=[], help="the first operand's type")
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("--device", default="cuda", help="cpu: compare the CPU with the rules")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    finished_pairs = set()
    if options.out.exists():
        for line in options.out.read_text().splitlines():
            record = json.loads(line)
            finished_pairs.add((record["name"], record["dtype"]))
    running = Path(f"{options.out}.running")
    rows = [row for row in ROWS if not options.names or row.name in options.names]
    rows = [row for row in rows if not options.family or row.family in options.family]
    for row in rows:
        for dtype in (*row.accepts, *row.refuses):
            if (row.name, dtype) in finished_pairs or (
                options.dtype and dtype not in options.dtype
            ):
                continue
            started = time.process_time()
            running.write_text(json.dumps([row.name, dtype]))
            try:
                record = run(row, dtype, options.device)
            except Exception as err:
                traceback.print_exc()
                text = f"{type(err).__name__}: {err}"[:_MOST_REASON]
                failed = {"call": "", "label": dtype, "reason": text}
                record = {"name": row.name, "dtype": dtype, "agrees": 0, "refused": 0,
                          "elements": 0, "differs": [failed]}  # fmt: skip
            running.unlink()
            record["cpu seconds"] = round(time.process_time() - started, 1)
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            try:
                if options.device == "cuda":
                    torch.cuda.synchronize()
            except Exception:
                return _CONTEXT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
