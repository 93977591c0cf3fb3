"""GEMM's predicted time: a stack that adds up, the fastest of all kernels, and physical bounds."""

import numpy as np
import pytest

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.dtypes import dtype_named
from vgpu_sim.perf.errors import BadShape, PerfError, UnknownModel
from vgpu_sim.perf.gemm.candidates import Candidates, Space
from vgpu_sim.perf.gemm.library import GENERAL, VECTOR, library_of
from vgpu_sim.perf.gemm.model import Model, Shapes
from vgpu_sim.perf.gemm.parameters import PARAMETERS
from vgpu_sim.perf.gemm.predict import predict

FITTED = parameters.read((parameters.FILES / "gemm.json").read_text())


def some_shapes(count: int = 300) -> Shapes:
    random = np.random.default_rng(3)
    return Shapes(*(np.exp(random.uniform(0, np.log(40_000), count)).astype(int) for _ in "mnk"))


def model(key: str) -> Model:
    board, dtype, library = key.split("/")
    return Model(BOARDS[board], dtype_named(dtype), FITTED[key].values, library)


@pytest.mark.parametrize("key", FITTED)
def test_causes_are_positive_and_add_to_the_time(key: str) -> None:
    shapes = some_shapes()
    stack, kernels = model(key).stack(shapes)
    assert set(stack.causes) >= {"launch", "prologue", "math", "epilogue", "split of k"}
    for name, part in stack.causes.items():
        assert (part >= -1e-9).all(), name
    np.testing.assert_allclose(stack.total, model(key).times(shapes, kernels), rtol=1e-9)


@pytest.mark.parametrize("key", ["h200/bf16/vllm", "b200/bf16/vllm", "l40s/bf16/vllm"])
def test_the_search_by_groups_finds_what_a_search_of_everything_finds(key: str) -> None:
    """Single precision and groups make the search fast; neither may cost more than a thousandth."""
    shapes = some_shapes(60)
    board = BOARDS[key.split("/")[0]]
    space = Space(board, library_of(board, "vllm", "bf16"))
    every = space.every
    covers = [
        {size: min([s for s in sizes if s >= size] or [max(sizes)]) for size in wanted}
        for sizes, wanted in (
            (set(every.bm) - {VECTOR}, set(shapes.m)),
            (set(every.bn), set(shapes.n)),
        )
    ]
    best = np.full(len(shapes), np.inf)
    for at in range(len(every)):
        one = every.at(np.full((len(shapes), 1), at))
        fits = [
            one.bm[row, 0] <= covers[0][m]
            and one.bn[row, 0] <= covers[1][n]
            and (m == 1 or one.bm[row, 0] > VECTOR)
            for row, (m, n) in enumerate(zip(shapes.m, shapes.n, strict=True))
        ]
        best = np.where(fits, np.minimum(best, model(key).times(shapes, one)), best)
    np.testing.assert_allclose(model(key).times(shapes), best, rtol=1e-3)


@pytest.mark.parametrize("key", FITTED)
def test_no_time_is_below_what_the_board_could_do(key: str) -> None:
    """DRAM moves what L2 cannot hold; tensor cores do not exceed the rate at their largest
    clock.
    """
    board = BOARDS[key.split("/")[0]]
    shapes = some_shapes()
    m, n, k = (np.asarray(x, float) for x in (shapes.m, shapes.n, shapes.k))
    us = model(key).times(shapes)
    dtype = dtype_named(key.split("/")[1])
    assert (us > 2 * m * n * k / board.tensor_flop_per_us(dtype.name) / 1.1).all()
    cold = dtype.bytes * (m * k + n * k) + 2 * m * n - 2e6 * board.l2_mb.value
    assert (us > cold / board.dram_bytes_per_us / 1.1).all()


def test_more_work_takes_longer() -> None:
    sizes = 2 ** np.arange(5, 16)
    fixed = np.full(len(sizes), 4096)
    for shapes in (Shapes(sizes, fixed, fixed), Shapes(fixed, fixed, sizes)):
        times = model("h200/bf16/vllm").times(shapes)
        assert (np.diff(times) > 0).all()


def test_a_small_product_with_a_long_sum_is_split() -> None:
    _, kernels = model("h200/bf16/vllm").stack(Shapes(*map(np.array, ([64], [512], [16384]))))
    assert kernels.splits[0, 0] > 1
    _, kernels = model("h200/bf16/vllm").stack(Shapes(*map(np.array, ([8192], [8192], [8192]))))
    assert kernels.splits[0, 0] == 1


def test_kernels_that_the_rules_leave_are_few() -> None:
    """This is what makes 10^5 predictions take less than a second."""
    shapes = some_shapes(2000)
    space = Space(BOARDS["h200"], library_of(BOARDS["h200"], "vllm", "bf16"))
    groups = list(space.groups(shapes.m, shapes.n, shapes.k))
    assert sorted(np.concatenate([rows for rows, _ in groups])) == list(range(2000))
    pairs = sum(len(rows) * len(kernels) for rows, kernels in groups)
    assert pairs < 0.4 * 2000 * len(space.every)
    assert isinstance(space.every, Candidates)


@pytest.mark.parametrize("key", FITTED)
def test_parameters_are_within_their_bounds(key: str) -> None:
    fitted = FITTED[key]
    assert set(fitted.values) == set(fitted.names) == {p.name for p in PARAMETERS}
    for one in PARAMETERS:
        assert one.low * 0.999 <= fitted.values[one.name] <= one.high * 1.001, one.name
    covariance = np.array(fitted.covariance)
    assert covariance.shape == (len(PARAMETERS),) * 2
    assert (np.diag(covariance) >= 0).all()
    np.testing.assert_allclose(covariance, covariance.T, rtol=0.05, atol=1e-5)
    assert fitted.rows < 1000
    assert "aiconfigurator-core 0.12.0" in fitted.source


def kernel(board: str, dtype: str, m: int, n: int, k: int) -> tuple[str, int]:
    found = predict(board, dtype, m, n, k).choice
    return found["tile"], found["parts of k"]


@pytest.mark.parametrize(
    ("board", "m", "tile"),
    [
        *(("h200", 64, "64x64"), ("h200", 65, "64x128"), ("h200", 256, "128x128")),
        *(("h200", 257, "128x256"), ("b200", 64, "64x64"), ("b200", 256, "64x128")),
        *(("b200", 257, "128x256"), ("rtx-pro-6000", 1, "128x128")),
    ],
)
def test_fp8_takes_the_tile_of_the_librarys_table_and_never_splits(
    board: str, m: int, tile: str
) -> None:
    """Independent of the sum's length: bf16's library would split it."""
    assert kernel(board, "fp8", m, 512, 65536) == (tile, 1)
    assert kernel(board, "bf16", 64, 512, 65536)[1] > 1


def test_small_products_are_split_only_from_two_million_multiplications_on() -> None:
    """cuBLAS on Ada and on the Blackwell of workstations, below k = 8192."""
    for board in ("l40s", "rtx-pro-6000"):
        assert kernel(board, "bf16", 8, 32, 8184)[1] == 1
        assert kernel(board, "bf16", 8, 32, 8192)[1] > 1
        assert kernel(board, "bf16", 2, 32, 16384)[1] > 1
    assert kernel("h200", "bf16", 8, 32, 8184)[1] > 1


@pytest.mark.parametrize("board", ["l40s", "rtx-pro-6000"])
def test_small_products_of_more_than_sixteen_tokens_are_split_from_2048_on(board: str) -> None:
    """The exceptions in the measured table: less than two million multiplications, and split."""
    assert kernel(board, "bf16", 17, 32, 2048)[1] > 1
    assert kernel(board, "bf16", 17, 32, 2047)[1] == 1
    assert kernel(board, "bf16", 16, 32, 2048)[1] == 1


def test_one_token_is_a_product_with_a_vector_where_kernels_for_it_are() -> None:
    assert kernel("l40s", "bf16", 1, 256, 2048)[0] == f"{VECTOR}x64"
    assert kernel("l40s", "bf16", 2, 256, 2048)[0] != f"{VECTOR}x64"
    assert kernel("h200", "bf16", 1, 256, 2048)[0] == "8x64"


def test_an_exception_applies_to_one_board_and_not_its_sibling() -> None:
    """An H200's cuBLAS takes a slow kernel for n = 1024 that an H100's does not."""
    values = FITTED["h200/bf16/vllm"].values
    odd, even = (Shapes(*map(np.array, ([4], [n], [2560]))) for n in (1024, 1023))

    def slower(board: str, library: str) -> float:
        model = Model(BOARDS[board], dtype_named("bf16"), values, library)
        return float(model.times(odd)[0] / model.times(even)[0])

    assert slower("h200", "vllm") > 2
    assert slower("h200", GENERAL) == pytest.approx(1, abs=0.05)
    assert slower("h100-80gb", "vllm") == pytest.approx(1, abs=0.05)


def test_smaller_types_are_faster_and_say_whose_kernels_they_are() -> None:
    sizes = (4096, 8192, 8192)
    bf16, fp8, nvfp4 = (predict("b200", dtype, *sizes) for dtype in ("bf16", "fp8", "nvfp4"))
    assert nvfp4.us < fp8.us < bf16.us
    assert "sglang" in nvfp4.fitted.source
    int8 = predict("a100-80gb", "int8", *sizes)
    assert int8.us < predict("a100-80gb", "bf16", *sizes).us
    assert "trtllm" in int8.fitted.source


def test_tf32_has_half_of_bf16s_rate_and_twice_its_bytes() -> None:
    large, bf16 = (predict("h200", dtype, 8192, 8192, 8192) for dtype in ("tf32", "bf16"))
    assert large.us / bf16.us == pytest.approx(2, rel=0.15)
    one = predict("h200", "tf32", 1, 16384, 16384)  # its time is that of reading its weights
    assert one.us / predict("h200", "bf16", 1, 16384, 16384).us == pytest.approx(2, rel=0.15)
    assert one.us > 4 * 16384**2 / 4.8e6
    assert "tf32 was not measured" in one.fitted.note
    assert sum(one.stack.values()) == pytest.approx(one.us)


def test_what_cannot_be_predicted_is_named() -> None:
    with pytest.raises(BadShape, match="a100-80gb's tensor cores do not have fp8; they have bf16"):
        predict("a100-80gb", "fp8", 1, 1, 1)
    with pytest.raises(BadShape, match="k must be at least 1"):
        predict("h200", "bf16", 1, 1, 0)
    with pytest.raises(
        UnknownModel, match=r"no parameters were fitted for gemm on h200 \(int8\); there are"
    ):
        predict("h200", "int8", 1, 1, 1)
    with pytest.raises(PerfError, match="no type 'bf15'"):
        predict("h200", "bf15", 1, 1, 1)


def test_a_board_without_measurements_names_its_donor() -> None:
    found = predict("a100-40gb", "fp16", 8, 8192, 8192)
    assert "parameters and interval are those of a100-80gb" in found.fitted.note
    assert "fp16 was not measured: taken to run as bf16" in found.fitted.note
    assert found.us > predict("a100-80gb", "bf16", 8, 8192, 8192).us  # its DRAM is slower
    assert predict("h200", "bf16", 8, 8192, 8192).fitted.note == ""
