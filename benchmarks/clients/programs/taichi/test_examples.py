"""Taichi's examples, for two frames each: what they draw and print on ``cuda`` and on ``cpu``.

Examples that draw random numbers, whose sequences differ between the two, must agree in the mean.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import taichi

ROOT = Path(taichi.__file__).parent / "examples"
RUN = Path(__file__).with_name("run_example.py")
LIMIT_S = 150
COMPUTES_NOTHING = 77
WINDOW = re.compile(r"ti\.ui\.|taichi\.ui|ti\.Texture|GGUI|arch=ti\.(vulkan|opengl)")
RANDOM = re.compile(r"ti\.random|ti\.randn")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
SAME_PART = 0.98


def _examples():
    paths = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py")
    return {str(path.relative_to(ROOT)): path for path in paths}


def _run(example, architecture, folder):
    output = folder / f"{architecture}.npz"
    command = [sys.executable, str(RUN), str(example), architecture, str(output)]
    try:
        process = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{architecture}: exceeds {LIMIT_S} s", pytrace=False)
    lines = [line for line in process.stderr.splitlines() if line.strip()] or [""]
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", process.stderr)
    if missing:
        pytest.skip(f"needs the package {missing[1]}")
    if process.returncode == COMPUTES_NOTHING:
        pytest.skip("computes nothing with a kernel")
    if process.returncode and architecture == "cpu":
        pytest.skip(f"ends on the CPU too: {lines[-1]}")
    if process.returncode:
        print(process.stderr)
        pytest.fail(f"status {process.returncode}: {lines[-1]}", pytrace=False)
    with np.load(output) as arrays:
        return [arrays[name] for name in arrays.files], process.stdout


def _compare(drawn, expected, is_random):
    """Return whether an array is the same but for the order of atomic operations.

    It changes how sums are rounded, and in which order lines and triangles are found.
    """
    if drawn.shape != expected.shape or not np.isfinite(drawn).all():
        return False
    span = float(np.ptp(expected)) or 1.0
    if is_random:
        return abs(drawn.mean() - expected.mean()) <= 0.1 * span
    return any(
        np.mean(np.abs(drawn_values - expected_values) <= 0.01 * span) >= SAME_PART
        for drawn_values, expected_values in (
            (drawn, expected),
            (np.sort(drawn, axis=None), np.sort(expected, axis=None)),
        )
    )


@pytest.mark.parametrize("name", _examples())
def test_example(name, tmp_path):
    example = _examples()[name]
    text = example.read_text()
    if WINDOW.search(text):
        pytest.skip("opens a window of Vulkan or OpenGL, or uses its textures")
    expected, expected_text = _run(example, "cpu", tmp_path)
    drawn, printed = _run(example, "cuda", tmp_path)
    is_random = RANDOM.search(text) is not None
    if not is_random:
        numbers, expected_numbers = (
            [float(number) for number in NUMBER.findall(text)] for text in (printed, expected_text)
        )
        if "print_ir" not in text:
            np.testing.assert_allclose(numbers, expected_numbers, rtol=2e-2, atol=1e-5)
    assert len(drawn) == len(expected)
    for i, (array, expected_array) in enumerate(zip(drawn, expected, strict=True)):
        assert _compare(array, expected_array, is_random), (
            f"array {i} differs in value from the CPU's"
        )
    if not drawn and not NUMBER.search(expected_text) and expected_text != printed:
        pytest.fail("prints something else than on the CPU", pytrace=False)
