"""Run a sample of one of PyTorch's own test files on the device.

Runs in an environment with PyTorch, as ``python own_tests.py FILE OUT [--sample N] [--seed N]``.
The file is not in the wheel: it comes from a checkout of PyTorch, or from a copy for another
device, whose tests are made for ``cuda`` here. One line of JSON is appended to OUT for each test;
before a test its name is written to ``OUT.running``.
"""

import argparse
import json
import os
import random
import re
import signal
import sys
import time
import unittest
from pathlib import Path

import torch
from torch.testing._internal import common_device_type, common_utils

_CONTEXT_FAILED = 3  # the exit status after which a new process goes on
_MOST_REASON = 300


class TimeLimit(BaseException):
    """A test took too long; no test's own handler of exceptions catches it."""


def describe(result):
    """Return what became of the one test of a result, and why."""
    for _, text in (*result.errors, *result.failures):
        return ("time" if "TimeLimit: " in text else "failed"), _last_error(text)[:_MOST_REASON]
    if result.unexpectedSuccesses:
        return "failed", "a success that the file does not expect"
    if result.expectedFailures:
        return "expected failure", _last_error(result.expectedFailures[0][1])[:_MOST_REASON]
    if result.skipped:
        return "skipped", result.skipped[0][1][:_MOST_REASON]
    return "passed", ""


def _last_error(text):
    """Return the message at the end of a traceback, which may have several lines."""
    lines = text.strip().split("\n")
    starts = [i for i, line in enumerate(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return " ".join(lines[starts[-1] :]) if starts else lines[-1]


def use_cuda():
    """Let test files for another device make their tests for ``cuda``."""
    make = common_device_type.instantiate_device_type_tests

    def make_for_cuda(test_class, scope, **options):
        options.pop("only_for", None)
        options.pop("except_for", None)
        return make(test_class, scope, only_for="cuda", **options)

    common_device_type.instantiate_device_type_tests = make_for_cuda


def load(path):
    """Return the file's tests by their names."""
    use_cuda()
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    scope = {"__name__": path.stem, "__file__": str(path)}
    module = type(sys)(path.stem)
    module.__dict__.update(scope)
    sys.modules[path.stem] = module
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    common_utils.TestCase._default_dtype_check_enabled = True
    tests = {}
    for group in unittest.defaultTestLoader.loadTestsFromModule(module):
        for test in group:
            tests[f"{type(test).__name__}.{test._testMethodName}"] = test
    return tests


def run(test, limit):
    """Return the outcome of one test, and why."""
    result = unittest.TestResult()
    signal.alarm(10 * limit)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        test.run(result)
    except TimeLimit as err:
        return "time", str(err)
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    return describe(result)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sample", type=int, default=0, help="0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=100, help="seconds of CPU time for each test")
    parser.add_argument("--match", default="", help="of the tests with this text in their names")
    options = parser.parse_args()

    def stop(_number, _frame):
        raise TimeLimit(f"more than {options.limit} s of CPU time, or ten times as long")

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    tests = load(options.file.resolve())
    names = sorted(name for name in tests if options.match in name)
    count = len(names)
    if options.sample:
        names = random.Random(options.seed).sample(names, min(options.sample, count))
    finished_names = set()
    if options.out.exists():
        finished_names = {json.loads(line)["name"] for line in options.out.read_text().splitlines()}
    running = Path(f"{options.out}.running")
    for name in names:
        if name in finished_names:
            continue
        running.write_text(name)
        started = time.process_time()
        outcome, reason = run(tests[name], options.limit)
        record = {"name": name, "outcome": outcome, "of": count}
        if reason:
            record["reason"] = reason
        record["cpu seconds"] = round(time.process_time() - started, 1)
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        try:
            torch.cuda.synchronize()
        except Exception:
            return _CONTEXT_FAILED
    running.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
