"""Which operands tessera_torch rounds, as PyTorch's CUDA source has it."""

import pytest

from tessera_torch.operands import rules


@pytest.mark.parametrize("operator", ["eq", "lt", "fmod", "remainder", "xlogy", "copysign", "isin"])
def test_a_number_is_rounded_where_the_kernel_takes_the_tensors_type(operator):
    assert rules.rounds_number(operator, "other")


@pytest.mark.parametrize(
    ("operator", "argument"),
    [("add", "alpha"), ("add", "other"), ("mul", "self"), ("div", "other"), ("lerp", "weight")],
)
def test_a_number_is_kept_where_the_kernel_computes_with_it_in_float32(operator, argument):
    assert not rules.rounds_number(operator, argument)


def test_a_dividend_is_rounded_though_a_divisor_is_not():
    assert rules.rounds_number("div", "self")
    assert rules.rounds_number("floor_divide", "self")


def test_a_parameter_is_rounded_only_where_the_table_names_it():
    assert rules.rounds_parameter("pow", "exponent")
    assert rules.rounds_parameter("threshold", "value")
    assert not rules.rounds_parameter("leaky_relu", "negative_slope")
    assert not rules.rounds_parameter("clamp", "min")


def test_moves_and_conversions_have_no_promoted_operands():
    assert not rules.has_promoted_operands("copy")
    assert not rules.has_promoted_operands("where")
    assert rules.has_promoted_operands("add")


def test_floor_division_by_a_number_is_no_multiplication():
    assert rules.multiplies_by_reciprocal(None)
    assert rules.multiplies_by_reciprocal("trunc")
    assert not rules.multiplies_by_reciprocal("floor")


def test_a_floor_division_loads_its_operands_as_a_loop_does():
    assert "floor_divide" in rules.ALSO_PROMOTED


def test_loops_of_one_type_are_not_those_that_convert_their_result():
    assert {"abs", "neg", "floor", "silu"} <= rules.OF_ONE_TYPE
    assert not {"exp", "add", "eq", "copy"} & rules.OF_ONE_TYPE
