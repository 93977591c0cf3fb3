"""The table of CUDA's rules for PyTorch's operators: complete rows, and numbers of real GPUs."""

import json
import math

import numpy as np
import pytest

from benchmarks.torch.rules import coverage, report, sweep
from benchmarks.torch.rules.compare import difference
from benchmarks.torch.rules.dtypes import ALL, cast, opmath, promote, spacing, special_values
from benchmarks.torch.rules.elementwise import common_type
from benchmarks.torch.rules.families.arithmetic import floor_divide, power
from benchmarks.torch.rules.families.creation import arange, linspace
from benchmarks.torch.rules.row import Expected, Operand
from benchmarks.torch.rules.table import FAMILIES, ROWS

BY_NAME = {row.name: row for row in ROWS}


def test_the_table_has_a_rule_for_most_of_the_most_used_operators():
    assert len(ROWS) >= 370
    assert len(coverage.operators()) == 300
    assert len(coverage.with_rows()) >= 260
    assert len(coverage.with_rows()) + len(coverage.without_rows()) == 300


def test_each_row_is_complete():
    assert len(BY_NAME) == len(ROWS), "a name appears once"
    for row in ROWS:
        assert all((row.rule, row.source, row.family, row.accepts)), row.name
        assert {*row.accepts, *row.refuses} <= set(ALL), row.name
        assert not set(row.accepts) & set(row.refuses), row.name
        assert ": " in row.source or row.source.startswith("https://"), row.name
        assert row.call or not row.refuses, f"{row.name} has no call that is refused"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.split(".")[-1])
def test_each_row_computes_results_of_its_types(family):
    for row in family.ROWS:
        dtype = next((one for one in ("bfloat16", "float32") if one in row.accepts), row.accepts[0])
        cases = [*row.cases(dtype), *(case for one in row.refuses[:1] for case in row.cases(one))]
        assert cases, row.name
        for case in cases:
            assert case.refused or case.results, f"{row.name}: {case.call}"
            for result in case.results:
                for choice in result.choices:
                    held = "float32" if result.dtype == "bfloat16" else result.dtype
                    assert str(choice.dtype) == held, f"{row.name} {case.label}"


def only(name, dtype, text):
    """Return the one case of a row whose label has a text, and its first choice of elements."""
    (case,) = [case for case in BY_NAME[name].cases(dtype) if text in case.label]
    return case, case.results[0].choices[0]


def at(case, elements, value):
    """Return the element for the operand that is equal to a value."""
    (place,) = np.flatnonzero(
        case.operands[0].values == cast(np.asarray(value), case.operands[0].dtype)
    )
    return elements[place]


@pytest.mark.parametrize(
    ("name", "value", "number", "result"),
    [
        ("eq", 1.7, "number 1.7", True), ("ne", 1.7, "number 1.7", False),
        ("gt", 1.7, "number 1.7", False), ("le", 0.1, "number 0.1", True),
        ("fmod", 1.7, "number 1.7", 0.0), ("pow.float", 0.1, "number 1.7", 0.0198974609375),
        ("mul", 3.0, "0-dim float64 tensor", 5.125), ("add", -1.7, "number 1.7", -0.0031280517578125),
    ],
)  # fmt: skip
def test_bfloat16_results_that_real_gpus_printed(name, value, number, result):
    case = next(one for one in BY_NAME[name].cases("bfloat16") if number in one.label)
    assert at(case, case.results[0].choices[0], value) == result


def test_threshold_rounds_its_numbers():
    case, elements = only("nn.functional.threshold", "bfloat16", "special")
    assert at(case, elements, 0.1) == 1.703125


def test_linspace_has_the_elements_that_real_gpus_printed():
    assert linspace(3.7, -3, 10, "int64")[0].tolist() == [3, 2, 1, 0, 0, 0, 0, -1, -2, -3]
    assert linspace(0, 255, 64, "uint8")[0][-1] == 255
    assert linspace(0, 999, 8, "int64")[0][-1] == 999
    assert linspace(-3.3, 7.7, 37, "float64")[0][-1] == 7.7
    assert linspace(0.0004, 0, 204, "float32")[0][-1] == 0


def test_arange_computes_integers_exactly():
    assert arange(5, -4, -2, "int8")[0].tolist() == [5, 3, 1, -1, -3]
    assert arange(0, 1, 0.1, "float32")[0].shape == (10,)


def test_integer_division_of_zero_and_of_the_least_number():
    first = np.array([7, -7, -128, 5], dtype="int8")
    second = np.array([2, 2, -1, 0], dtype="int8")
    assert floor_divide(lambda values: values, first, second).tolist() == [3, -4, -128, 0]


def test_powers_of_integers_wrap():
    base = np.array([3, -1, 2, 5], dtype="int8")
    exponent = np.array([5, -3, -1, 0], dtype="int8")
    assert power(base, exponent).tolist() == [243 - 256, -1, 0, 1]


def test_shifts_by_the_width_or_a_negative_number():
    case, elements = only("bitwise_left_shift", "int8", "tensors")
    amounts = case.operands[1].values
    assert not elements[(amounts < 0) | (amounts >= 8)].any()
    case, elements = only("bitwise_right_shift", "int8", "tensors")
    signs = np.where(case.operands[0].values < 0, -1, 0)
    outside = (case.operands[1].values < 0) | (case.operands[1].values >= 7)
    assert (elements[outside] == signs[outside]).all()


def test_rounding_to_half_types():
    assert cast(np.array([1.7]), "bfloat16") == np.float32(1.703125)
    assert cast(np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8]), "bfloat16").tolist() == [1.0, 1.015625]
    assert cast(np.array([3.4e38]), "bfloat16") == np.inf
    assert np.isnan(cast(np.array([np.nan]), "bfloat16"))
    # float64 becomes float32 first: a tie that a direct conversion would not have seen.
    tie = 1 + 2.0**-11 + 2.0**-40
    assert cast(np.array([tie]), "float16") == 1.0


def test_special_values_are_exact_in_their_type():
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        values = special_values(dtype)
        assert np.array_equal(cast(values, dtype), values, equal_nan=True)
        assert np.isnan(values[-1])
        assert not np.signbit(values[-1])
        assert math.inf in values
        assert spacing(np.array([0.0]), dtype)[0] in values


@pytest.mark.parametrize(
    ("operands", "common"),
    [
        ([("int64", "tensor", 1), ("float64", "number", 0)], "float32"),
        ([("bfloat16", "tensor", 1), ("float64", "tensor", 0)], "bfloat16"),
        ([("int8", "tensor", 1), ("int64", "tensor", 0)], "int8"),
        ([("int8", "tensor", 1), ("float64", "cpu", 0)], "float64"),
        ([("bool", "tensor", 1), ("int64", "number", 0)], "int64"),
        ([("float16", "tensor", 1), ("bfloat16", "tensor", 1)], "float32"),
    ],
)
def test_common_types(operands, common):
    made = [Operand(np.zeros((2,) * dim), dtype, kind) for dtype, kind, dim in operands]
    assert common_type(made) == common


def test_promotion_is_symmetric():
    assert promote("uint8", "int8") == promote("int8", "uint8") == "int16"
    assert promote("float64", "complex64") == "complex128"
    assert opmath("bfloat16") == "float32"


def test_a_comparison_finds_signs_types_and_the_last_bit():
    values = np.array([0.0, 1.0, np.nan], dtype="float32")
    expected = Expected("float32", (values,))
    assert difference(expected, "float32", values) == ""
    assert "[0]" in difference(expected, "float32", np.array([-0.0, 1, np.nan], dtype="float32"))
    after = np.nextafter(np.float32(1), np.float32(2))
    assert "[1]" in difference(expected, "float32", np.array([0, after, np.nan], dtype="float32"))
    assert "[2]" in difference(expected, "float32", np.array([0, 1, 1], dtype="float32"))
    assert "type" in difference(expected, "float64", values.astype("float64"))
    assert "shape" in difference(expected, "float32", values[:2])
    window = Expected("float32", (values,), values, values + np.float32(1e-6))
    assert difference(window, "float32", np.array([0, after, np.nan], dtype="float32")) == ""


def test_complex_results_are_compared_by_parts():
    values = np.array([complex(np.nan, np.inf), 1 + 1j], dtype="complex64")
    expected = Expected("complex64", (values,), relative=1e-5)
    assert difference(expected, "complex64", values) == ""
    other = np.array([complex(np.nan, np.nan), 1 + 1j], dtype="complex64")
    assert "1 of 2" in difference(expected, "complex64", other)


def test_a_report_counts_what_disagrees(tmp_path):
    out = tmp_path / "rules.jsonl"
    differs = [{"call": "a == b", "label": "bfloat16", "reason": "False for True"}]
    record = {"dtype": "bfloat16", "agrees": 2, "refused": 1, "elements": 30}
    lines = [
        {"name": "eq", **record, "differs": differs},
        {"name": "ne", **record, "differs": differs},
        {"name": "ne", **record, "differs": []},
    ]
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    records = report.read(out)
    counts = report.count(records)
    assert (counts["cases"], counts["agreements"], counts["disagreements"]) == (7, 4, 1)
    assert report.disagreements(records) == ["eq | bfloat16 | a == b | False for True"]
    text = report.render(records, [{"name": "fft.fft", "forward": "wrong"}])
    assert "DISAGREES eq" in text
    assert "DIFFERS FROM THE CPU fft.fft" in text


def test_a_lost_process_is_recorded_and_its_row_is_skipped(tmp_path):
    out = tmp_path / "rules.jsonl"
    running = tmp_path / "rules.jsonl.running"
    running.write_text(json.dumps(["svd", "float32"]))
    sweep.record_loss(out, running, -9)
    assert not running.exists()
    assert report.disagreements(report.read(out)) == [
        "svd | float32 |  | the process ended with status -9"
    ]


def test_a_sweep_ends_when_the_program_does_or_cannot_start(tmp_path):
    assert sweep.run(["/bin/true"], tmp_path / "out", [])
    assert not sweep.run(["/bin/false"], tmp_path / "out", [])
