"""tessera_torch's loops: the order, the strides and the patterns of element-wise operations."""

import pytest

from tessera_torch import layout
from tessera_torch.layouts import Layout, layout_of


class FakeTensor:
    """What ``layout_of`` reads of a tensor."""

    def __init__(self, shape, strides, address=0):
        self.shape, self._strides, self._address = shape, strides, address

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    def stride(self):
        return self._strides

    def data_ptr(self):
        return self._address

    def is_contiguous(self):
        return self._strides == layout.contiguous_strides(self.shape)


def test_contiguous_operands_are_one_dimension():
    loop = layout.iterate([((2, 3, 4), (12, 4, 1)), ((2, 3, 4), (12, 4, 1))])
    assert loop.sizes == (24,)
    assert loop.strides == ((1,), (1,))
    assert loop.result_strides == (12, 4, 1)


def test_a_repeated_operand_keeps_the_dimensions_apart():
    loop = layout.iterate([((5, 7), (7, 1)), ((7,), (1,))])
    assert loop.shape == (5, 7)
    assert loop.sizes == (5, 7)
    assert loop.strides == ((7, 1), (0, 1))
    loop = layout.iterate([((4, 5, 7), (35, 7, 1)), ((1, 1, 7), (7, 7, 1))])
    assert loop.sizes == (20, 7)
    assert loop.strides == ((7, 1), (0, 1))


def test_the_result_has_the_order_of_its_operands():
    loop = layout.iterate([((3, 2), (1, 3)), ((3, 2), (1, 3))])  # both transposed
    assert loop.result_strides == (1, 3)
    assert loop.sizes == (6,)
    mixed = layout.iterate([((3, 2), (1, 3)), ((3, 2), (2, 1))])  # the first one decides
    assert mixed.result_strides == (1, 3)
    assert mixed.sizes == (2, 3)


def test_a_pattern_does_not_depend_on_sizes_or_strides():
    def pattern(rows, columns, step):
        operands = [((rows, columns), (step, 1)), ((columns,), (1,))]
        return layout.iterate(operands).pattern(True)

    assert pattern(4, 8, 8) == pattern(5, 70, 100)
    assert pattern(4, 8, 8) != layout.iterate([((4, 8), (8, 1))]).pattern(True)
    assert pattern(2**20, 2**12, 2**12)[2], "an index needs more than 32 bits"


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match="sizes 3 and 4"):
        layout.iterate([((3,), (1,)), ((4,), (1,))])
    with pytest.raises(ValueError, match="target"):
        layout.iterate([((3,), (1,)), ((2, 3), (3, 1))], shape=(3,))


@pytest.mark.parametrize(
    ("own", "fits"),
    [((), True), ((3,), True), ((1,), True), ((2, 1), True), ((2,), False), ((1, 2, 3), False)],
)
def test_a_tensor_is_expanded_by_new_and_single_dimensions_only(own, fits):
    assert layout.broadcast_to(own, (2, 3)) == ((2, 3) if fits else None)


def test_a_growing_cache_keeps_its_layout():
    """Keys of attention: (batch, heads, length, width), also as a view of a longer buffer."""
    found = {layout_of(FakeTensor((1, 4, n, 16), (64 * n, 16 * n, 16, 1))) for n in range(2, 20)}
    assert len(found) == 1
    views = {layout_of(FakeTensor((1, 4, n, 16), (6400, 1600, 16, 1))) for n in range(2, 20)}
    assert len(views) == 1


def test_the_values_of_a_dense_tensor_are_its_sizes():
    transposed = FakeTensor((3, 5), (1, 3), address=4)
    found = layout_of(transposed)
    assert found == Layout((2, 2), (0, 1), (), False, False)
    assert found.values(transposed) == [3, 5]
    hints = []
    sizes, strides = found.symbols(transposed, lambda hint: hints.append(hint) or hint)
    assert (sizes, strides, hints) == ((3, 5), (1, 3), [3, 5])


def test_the_values_of_any_other_tensor_include_strides():
    part = FakeTensor((3, 5), (20, 2))
    found = layout_of(part)
    assert found.order is None
    assert found.values(part) == [3, 5, 20, 2]


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [
        ((3, 4), (4, 1), True),
        ((4, 3), (1, 4), True),  # transposed
        ((1, 4), (9, 1), True),  # one row has no step
        ((3, 4), (5, 1), False),  # gaps
        ((3, 4), (0, 1), False),  # repeated
        ((3, 3), (1, 1), False),  # overlapping
        ((), (), True),
    ],
)
def test_a_dense_tensor_has_each_element_of_its_range_once(shape, strides, dense):
    assert layout.is_dense(shape, strides) is dense


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((2, 3, 4, 5), (60, 1, 15, 3), True),
        ((2, 3, 4, 5), (60, 20, 5, 1), False),
        ((2, 3, 4, 5), (60, 0, 15, 3), False),
        ((2, 0, 4, 5), (0, 1, 0, 0), False),
        ((2, 1, 4, 5), (20, 1, 5, 1), True),
        ((2, 1, 4, 5), (20, 20, 5, 1), False),
        ((2, 3, 1, 1), (3, 1, 1, 1), False),
        ((2, 3, 1, 1), (3, 1, 3, 3), True),
        ((1, 1, 1, 1), (1, 1, 1, 1), False),
        ((2, 3, 2, 4, 5), (120, 1, 60, 15, 3), True),
        ((2, 3, 2, 4, 5), (120, 40, 20, 5, 1), False),
    ],
)
def test_strides_are_those_of_channels_last_as_pytorch_takes_them(sizes, strides, expected):
    assert layout.are_channels_last(sizes, strides) is expected
