"""The table of CUDA's rules for PyTorch's operators: complete rows, and numbers of real GPUs."""

import json
import math

import numpy as np
import pytest

from benchmarks.torch.rules import coverage, report, sweep
from benchmarks.torch.rules.compare import difference
from benchmarks.torch.rules.dtypes import (
    ALL,
    cast,
    opmath,
    promote,
    spacing,
    special_values,
    storage,
)
from benchmarks.torch.rules.eight_bits import EIGHTS, codes, decode, encode
from benchmarks.torch.rules.elementwise import Functor, common_type, expect
from benchmarks.torch.rules.families.arithmetic import divide, floor_divide, power, truncate
from benchmarks.torch.rules.families.creation import arange, linspace
from benchmarks.torch.rules.known_cases import KNOWN
from benchmarks.torch.rules.row import Expected, Operand
from benchmarks.torch.rules.table import FAMILIES, ROWS

BY_NAME = {row.name: row for row in ROWS}
NUMBERS = {"float": "float64", "int": "int64"}  # Python's, as arrays


def test_the_table_has_a_rule_for_each_of_the_most_used_operators():
    assert len(coverage.operators()) == 300
    assert coverage.without_rows() == ()


def test_each_row_is_complete():
    assert len(BY_NAME) == len(ROWS), "a name appears once"
    for row in ROWS:
        assert all((row.rule, row.source, row.family, row.accepts)), row.name
        assert {*row.accepts, *row.refuses} <= {*ALL, *EIGHTS}, row.name
        assert not set(row.accepts) & set(row.refuses), row.name
        assert ": " in row.source or row.source.startswith("https://"), row.name


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.split(".")[-1])
def test_each_row_computes_results_of_its_types(family):
    for row in family.ROWS:
        preferred = [name for name in ("bfloat16", "float32") if name in row.accepts]
        dtype = (*preferred, row.accepts[0])[0]
        refusals = [case for name in row.refuses[:1] for case in row.cases(name)]
        assert all(case.refused for case in refusals), row.name
        assert bool(refusals) == bool(row.refuses), row.name
        cases = [*row.cases(dtype), *refusals]
        assert len(cases) > len(refusals), row.name
        for case in cases:
            assert case.refused or case.results, f"{row.name}: {case.call}"
            for result in case.results:
                for choice in result.choices:
                    number_dtype = NUMBERS.get(result.dtype, result.dtype)
                    assert choice.dtype == storage(number_dtype), f"{row.name} {case.label}"


def test_a_type_that_is_refused_has_the_operands_of_others():
    accepted = list(BY_NAME["histc"].cases("float32"))
    refused = list(BY_NAME["histc"].cases("float16"))
    assert [case.call for case in refused] == [case.call for case in accepted]
    assert all(case.refused and not case.results for case in refused)
    assert refused[0].operands[0].values.shape == accepted[0].operands[0].values.shape


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
    case = next(case for case in BY_NAME[name].cases("bfloat16") if number in case.label)
    assert at(case, case.results[0].choices[0], value) == result


@pytest.mark.parametrize(
    ("kind", "quotient"),
    [("number", np.float32(0.99999994)), ("cpu", np.float32(0.99999994)), ("tensor", 1)],
)
def test_only_a_number_divides_by_multiplication_with_its_reciprocal(kind, quotient):
    dividend = Operand(np.array([1.7], dtype="float32"), "float32")
    divisor = Operand(np.asarray(1.7), "float64", kind)
    functor = Functor(divide, narrow=False, result="float")
    assert expect(functor, (dividend, divisor)).choices[0].tolist() == [quotient]


@pytest.mark.parametrize(("kind", "quotient"), [("number", 9), ("tensor", 10)])
def test_half_types_round_the_quotient_of_tensors_before_truncation(kind, quotient):
    dividend = Operand(cast(np.array([1.0]), "bfloat16"), "bfloat16")
    divisor = Operand(np.asarray(0.1001), "float64", kind)
    functor = Functor(truncate, narrow=False, rounds=True)
    assert expect(functor, (dividend, divisor)).choices[0].tolist() == [quotient]


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


@pytest.mark.parametrize("dtype", EIGHTS)
def test_each_code_of_8_bits_is_the_nearest_to_its_number(dtype):
    numbers = decode(codes(), dtype)
    coded = encode(numbers, dtype)
    assert np.array_equal(decode(coded, dtype), numbers, equal_nan=True)
    is_number = ~np.isnan(numbers)
    assert (coded == codes())[is_number].all()


@pytest.mark.parametrize(
    ("dtype", "number", "code"),
    [
        ("float8_e4m3fn", 464, 0x7E), ("float8_e4m3fn", -math.inf, 0xFE), ("float8_e4m3fn", 1.0625, 0x38),
        ("float8_e5m2", 61439, 0x7B), ("float8_e5m2", 61440, 0x7C), ("float8_e5m2", 2.0**-17, 0x00),
        ("float8_e4m3fnuz", 248, 0x80), ("float8_e4m3fnuz", -0.0, 0x00),
        ("float8_e5m2fnuz", math.inf, 0x80), ("float8_e5m2fnuz", 2.0**-17, 0x01),
        ("float8_e8m0fnu", -1.5, 0x80), ("float8_e8m0fnu", 1.49, 0x7F), ("float8_e8m0fnu", math.inf, 0xFF),
        ("float8_e8m0fnu", 2.0**-127 * 1.01, 0x01),
    ],
)  # fmt: skip
def test_codes_of_numbers_between_and_beyond_those_of_8_bit_floats(dtype, number, code):
    assert encode(np.array([number]), dtype)[0] == code


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
    unlike = np.array([complex(np.nan, np.nan), 1 + 1j], dtype="complex64")
    assert "1 of 2" in difference(expected, "complex64", unlike)
    turned = np.array([complex(np.nan, -np.inf), 1 + 1j], dtype="complex64")
    assert difference(expected, "complex64", turned) == ""
    assert difference(Expected("complex64", (values,)), "complex64", turned)
    positive, negative = np.array([1 + 0j]), np.array([complex(1, -0.0)])
    assert "1 of 1" in difference(Expected("complex128", (positive,)), "complex128", negative)
    near = Expected("complex128", (positive,), relative=1e-12)
    assert difference(near, "complex128", negative) == ""


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


def test_a_row_writes_its_result_into_types_that_hold_it_and_into_others():
    cases = {case.label: case for case in BY_NAME["add"].cases("float16") if "into" in case.label}
    wider, narrower = cases["float16 tensors into float64"], cases["float16 tensors into int32"]
    assert wider.call == "torch.add(a, b, out=torch.empty(0, dtype=torch.float64, device=DEVICE))"
    plain = next(BY_NAME["add"].cases("float16")).results[0]
    assert (wider.results[0].dtype, wider.refused) == ("float64", False)
    np.testing.assert_array_equal(
        wider.results[0].choices[0], plain.choices[0].astype("float64"), "rounded, then converted"
    )
    assert (narrower.refused, narrower.results) == (True, ())
    refusals = [case for case in BY_NAME["abs"].cases("float16") if "into" in case.label]
    assert [case.refused for case in refusals] == [True, True]
    assert not [case for case in BY_NAME["add"].cases("float32") if "into" in case.label]


def test_quotients_of_lists_are_those_of_a_division():
    number = "number 1.7"
    (listed,) = [case for case in BY_NAME["_foreach_div"].cases("float32") if number in case.label]
    single = next(case for case in BY_NAME["div"].cases("float32") if number in case.label)
    divided, multiplied = (case.results[0].choices[0] for case in (listed, single))
    with np.errstate(all="ignore"):
        exact = listed.operands[0].values / np.float32(1.7)
    np.testing.assert_array_equal(divided, exact)
    assert (divided != multiplied)[np.isfinite(divided)].any()


def test_only_known_cases_may_disagree(monkeypatch):
    monkeypatch.setattr(report, "KNOWN", {("pow", "float32", "tensors"): "a last bit"})

    def record(name, *labels, dtype="float32"):
        differs = [{"call": "", "label": label, "reason": "1 of 2"} for label in labels]
        return {"name": name, "dtype": dtype, "agrees": 1, "refused": 0, "elements": 1,
                "differs": differs}  # fmt: skip

    expected = [record("pow", "tensors"), record("eq")]
    assert report.is_as_expected(expected)
    assert "KNOWN pow | tensors | a last bit" in report.render(expected, [])
    assert not report.is_as_expected([record("pow", "tensors", "empty")])
    assert not report.is_as_expected([record("pow", "tensors", dtype="float64")])
    assert report.is_as_expected([record("eq")]), "a row that was not compared"
    assert not report.is_as_expected([record("pow")]), "a known case that agrees"
    assert "LISTED AS KNOWN pow | tensors" in report.render([record("pow")], [])


def test_each_known_case_is_one_of_the_table():
    for (name, dtype, label), reason in KNOWN.items():
        assert label in {case.label for case in BY_NAME[name].cases(dtype)}, reason


def test_sums_products_and_windows_have_cases_of_infinities_and_nan():
    for name, label in (("sum", "special"), ("mean", "special"), ("mm", "inf"), ("mm", "nan")):
        _, elements = only(name, "float32", label)
        assert not np.isfinite(elements).all(), name
    _, elements = only("nn.functional.max_pool2d", "float32", "nan")
    assert np.isnan(elements).sum() == 1
