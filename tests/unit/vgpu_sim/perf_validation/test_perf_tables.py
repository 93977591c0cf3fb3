"""Tables of the performance model, compared with independent transcriptions of their sources."""

from collections import Counter

import pytest

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import BOARDS
from vgpu_sim.perf.dtypes import DTYPES
from vgpu_sim.perf.errors import BadShape, UnknownModel
from vgpu_sim.perf.gemm.library import GENERAL, library_of
from vgpu_sim.perf.models import ARCHITECTURES, diffusion
from vgpu_sim.perf.topology import PRESETS
from vgpu_sim.perf.topology.places import Expander, Level, Place, Topology

# config.json of each model: num_hidden_layers, hidden_size, num_attention_heads,
# num_key_value_heads, head_dim, intermediate_size (of an expert), vocab_size; experts in total and
# per token.
CONFIGURATIONS = {
    "llama-2-7b": (32, 4096, 32, 32, 128, 11008, 32000, 0, 0),
    "llama-2-13b": (40, 5120, 40, 40, 128, 13824, 32000, 0, 0),
    "llama-2-70b": (80, 8192, 64, 8, 128, 28672, 32000, 0, 0),
    "llama-3-8b": (32, 4096, 32, 8, 128, 14336, 128256, 0, 0),
    "llama-3-70b": (80, 8192, 64, 8, 128, 28672, 128256, 0, 0),
    "llama-3-405b": (126, 16384, 128, 8, 128, 53248, 128256, 0, 0),
    "mixtral-8x7b": (32, 4096, 32, 8, 128, 14336, 32000, 8, 2),
    "mixtral-8x22b": (56, 6144, 48, 8, 128, 16384, 32768, 8, 2),
    "deepseek-v3": (61, 7168, 128, 128, 128, 2048, 129280, 256, 8),
}
FIELDS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "inner", "vocabulary")
# n_shared_experts, q_lora_rank, first_k_dense_replace, intermediate_size of DeepSeek-V3.
LATENT = {"deepseek-v3": (1, 1536, 3, 18432)}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_has_the_sizes_of_its_published_configuration(name: str) -> None:
    model = ARCHITECTURES[name]
    found = [getattr(model, field) for field in (*FIELDS, "experts", "topk")]
    assert tuple(found) == CONFIGURATIONS[name]
    beside = (model.shared, model.query_rank, model.dense_layers, model.dense_inner)
    assert beside == LATENT.get(name, (0, 0, 0, 0))
    assert model.is_latent is (name in LATENT)
    assert model.cached == (576 if name in LATENT else 2 * model.kv_heads * 128)


def test_the_weights_of_a_layer_of_deepseek_v3() -> None:
    """Queries are compressed to 1536, keys and values to 512 + 64; 128 heads of 128 + 64 and of
    128.
    """
    model = ARCHITECTURES["deepseek-v3"]
    squeezed = 7168 * 1536 + 7168 * 576
    expanded = 1536 * 128 * 192 + 512 * 128 * (128 + 128)
    attention = squeezed + expanded + 128 * 128 * 7168
    assert model.attention_parameters(128, 128) == attention
    mixed = attention + (256 + 1) * 3 * 7168 * 2048 + 256 * 7168
    dense = attention + 3 * 7168 * 18432
    assert model.parameters == 58 * mixed + 3 * dense + 2 * 129280 * 7168


@pytest.mark.parametrize(
    ("name", "size"),
    # nvfp4: half a byte, and a scale byte for each 16 elements
    [("bf16", 2), ("fp16", 2), ("tf32", 4), ("fp8", 1), ("int8", 1), ("nvfp4", 9 / 16)],
)
def test_a_type_takes_its_bytes(name: str, size: float) -> None:
    assert DTYPES[name].bytes == size
    assert len(DTYPES) == 6


# GB/s of DRAM, GB, MB of L2, multiprocessors, by the data sheets that the rows name.
SHEETS = {
    "a30": (933, 24, 24, 56),
    "a100-40gb": (1555, 40, 40, 108),
    "a100-80gb": (2039, 80, 40, 108),
    "h100-80gb": (3350, 80, 50, 132),
    "h100-nvl": (3938, 94, 50, 132),
    "h200": (4800, 141, 50, 132),
    "b200": (7700, 180, 126, 148),
    "gb200": (8000, 186, 126, 152),
    "l40s": (864, 48, 96, 142),
    "rtx-pro-6000": (1597, 96, 128, 188),
}


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_a_board_has_the_memory_of_its_data_sheet(board) -> None:
    figures = (board.dram_gb_per_s, board.dram_gb, board.l2_mb, board.sms)
    assert tuple(one.value for one in figures) == SHEETS[board.name]
    shared = {8: 164, 9: 228, 10: 228, 12: 100}[board.compute_capability[0]]
    assert board.shared_kb_per_sm.value == (100 if board.name == "l40s" else shared)
    assert board.has_tensor_memory is (board.compute_capability == (10, 0))
    full = board.dram_gb.value * 1e9
    board.require_room(full)
    with pytest.raises(BadShape, match="operands and result take"):
        board.require_room(full + 1)


# Tiles by the names of cuBLAS's kernels: tokens from 8 on where Hopper's are (nvjet), else by MMA.
NVJET = [*range(8, 65, 8), *range(80, 193, 16), 224, 256]
MMA = [1, 16, 32, 64, 128, 256]


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_cublas_has_the_tiles_that_its_kernels_are_named_after(board) -> None:
    found = library_of(board, GENERAL, "bf16")
    fine = board.compute_capability[0] in (9, 10)
    assert list(found.tokens) == (NVJET if fine else MMA)
    assert list(found.features) == ([64, 128, 192, 256] if fine else [64, 128, 256])
    largest = {9: 192 * 192, 10: 256 * 256}.get(board.compute_capability[0], 128 * 256)
    assert found.largest == largest
    work = 2**21 if board.compute_capability in ((8, 9), (12, 0)) else 0
    assert (found.least_work, found.most_ctas, found.least_k) == (work, 4, 384)
    assert (found.long_k, found.few_tokens, found.deep_k) == (8192, 16, 2048)
    assert found.splits
    assert found.exception is None
    assert found.dispatch is None


def test_exceptions_are_of_one_board_each_and_of_types_as_wide_as_bf16() -> None:
    found = library_of(BOARDS["h200"], "vllm", "fp16").exception
    assert found is not None
    assert (found.m, found.n, found.k, found.stages) == (7, 1024, 2560, 1.5)
    found = library_of(BOARDS["b200"], "vllm", "bf16").exception
    assert found is not None
    assert (found.m, found.n, found.k, found.stages) == (17, 1024, 2048, 2)
    for board, library, dtype in (
        ("h200", "vllm", "tf32"),
        ("h200", GENERAL, "bf16"),
        ("gb200", "vllm", "bf16"),
    ):
        assert library_of(BOARDS[board], library, dtype).exception is None


# SGLang's tables for fp8: the tile for each maximum number of tokens.
DISPATCHES = {
    "h200": [(64, 64, 64), (128, 64, 128), (256, 128, 128), (float("inf"), 128, 256)],
    "b200": [(64, 64, 64), (256, 64, 128), (float("inf"), 128, 256)],
    "rtx-pro-6000": [(float("inf"), 128, 128)],
}


@pytest.mark.parametrize("board", DISPATCHES)
def test_the_tiles_of_fp8_by_tokens(board: str) -> None:
    found = library_of(BOARDS[board], "sglang", "fp8")
    assert found.dispatch is not None
    assert [(one.tokens, one.bm, one.bn) for one in found.dispatch] == DISPATCHES[board]
    assert found.splits is False
    assert found.largest == 256 * 256
    assert library_of(BOARDS[board], "sglang", "nvfp4").dispatch is None
    assert library_of(BOARDS[board], "vllm", "fp8").dispatch is None
    assert library_of(BOARDS["l40s"], "sglang", "fp8").dispatch is None


# PCI buses of the guides' and listings' devices: GPUs, and adapters.
HGX_8 = "1b 43 52 61 9d c3 d1 df", "18 40 4f 5e 9a c0 ce dc"
BUSES = {
    "flat": ("01 02 03 04 05 06 07 08", "", ""),
    "dgx-a100": ("07 0f 47 4e 87 90 b7 bd", "0c 12 4b 54 8d 94 ba cc", ""),
    "dgx-h100": (*HGX_8, ""),
    "dgx-b200": (*HGX_8, ""),
    "hgx-4": ("17 65 ca e3", "1a 68 cd e6", ""),
    "pcie-2-socket": ("16 17 3a 3b 96 97 ba bb", "18 98", "19 3c 99 bc"),
}


@pytest.mark.parametrize("name", BUSES)
def test_devices_of_a_named_topology_are_on_the_buses_of_its_listing(name: str) -> None:
    one = PRESETS[name]
    found = [
        " ".join(place.bus_id[5:7] for place in devices)
        for devices in (one.gpus, one.hcas, one.nvmes)
    ]
    assert tuple(found) == BUSES[name]
    assert all(place.bus_id == f"0000:{place.bus:02x}:00.0" for place in one.gpus)
    numa = {"flat": 1, "dgx-a100": 8}.get(name, 2)
    assert (one.numa_nodes, len(PRESETS)) == (numa, len(BUSES))
    assert one.switched is name.startswith("dgx")


def test_the_two_socket_server_is_what_its_guide_says() -> None:
    """Two GPUs and a drive are below each of four switches, an adapter below one of each
    socket's.
    """
    one = PRESETS["pcie-2-socket"]

    def places(devices: tuple[Place, ...]) -> list[tuple[int, int, int]]:
        return [(place.numa, place.bridge, place.switch) for place in devices]

    switches = [(0, 0, 0), (0, 1, 1), (1, 2, 2), (1, 3, 3)]
    assert places(one.gpus) == [place for place in switches for _ in "12"]
    assert places(one.nvmes) == switches
    assert places(one.hcas) == [switches[0], switches[2]]
    ports = [{place.port for place in devices} for devices in (one.gpus, one.hcas, one.nvmes)]
    assert ports == [{0}, {1}, {2}]
    assert one.cxls == (Expander(0, 4, 256, 8, 2), Expander(1, 5, 256, 8, 2))


@pytest.mark.parametrize(("lanes", "generation", "rate"), [(8, 2, 31.5), (16, 2, 63), (8, 3, 64)])
def test_an_expander_has_the_rate_of_its_lanes(lanes: int, generation: int, rate: float) -> None:
    """32 GT/s with 128 of 130 bits, or 64 GT/s, times the number of lanes, in bytes."""
    assert Expander(0, 0, 1, lanes, generation).gb_per_s == pytest.approx(rate, rel=1e-3)


def test_levels_are_nvmls_and_each_is_the_nearest_thing_in_common() -> None:
    assert [level.value for level in Level] == [0, 10, 20, 30, 40, 50]
    topology, base = Topology("t", ()), Place(1, 0, 0, 0, 0)
    others = (base, Place(2, 0, 0, 0, 0), Place(2, 0, 0, 0, 1), Place(2, 0, 0, 1, 0))
    others += (Place(2, 0, 1, 0, 0), Place(2, 1, 0, 0, 0))
    assert [topology.level(base, other) for other in others] == list(Level)
    links = Topology("t", (base,) * 4, nvlinks=(("Hopper", 18),))
    assert (links.links_of("Hopper"), links.links_between("Hopper")) == (18, 6)
    alone = Topology("t", (base,), nvlinks=(("Hopper", 18),))
    assert alone.links_between("Hopper") == 18


# SDXL's U-Net (unet/config.json) of a latent of 128: residual blocks as (side, in, out).
BLOCKS = [
    *[(128, 320, 320)] * 2,
    *[(64, 320, 640), (64, 640, 640)],
    *[(32, 640, 1280), *[(32, 1280, 1280)] * 3],  # the last two are in the middle
    *[(32, 2560, 1280), (32, 2560, 1280), (32, 1920, 1280)],
    *[(64, 1920, 640), (64, 1280, 640), (64, 960, 640)],
    *[(128, 960, 320), (128, 640, 320), (128, 640, 320)],
]
# Transformers as (side, width, layers): two per level on the way down, three up, one in the middle.
TRANSFORMERS = [*[(64, 640, 2)] * 5, *[(32, 1280, 10)] * 6]


def gemms(batch: int) -> Counter[tuple[int, int, int]]:
    """Count the products of one pass: tokens, features, inner."""
    found: Counter[tuple[int, int, int]] = Counter()

    def conv(side: int, width: int, out: int) -> None:
        found[batch * side * side, out, 9 * width] += 1

    conv(128, 4, 320)
    conv(128, 320, 4)
    for side, width in ((64, 320), (32, 640), (64, 1280), (128, 640)):  # between levels
        conv(side, width, width)
    for width, _ in ((320, 0), (2816, 0)):  # the time embedding, and the embedding of the text
        found[batch, 1280, width] += 1
        found[batch, 1280, 1280] += 1
    for side, width, out in BLOCKS:
        conv(side, width, out)
        conv(side, out, out)
        found[batch, out, 1280] += 1
        if width != out:
            found[batch * side * side, out, width] += 1
    for side, width, layers in TRANSFORMERS:
        pixels = batch * side * side
        found[pixels, width, width] += 2 + layers * 3  # in and out; two outputs and a query
        found[pixels, 3 * width, width] += layers
        found[batch * 77, 2 * width, 2048] += layers
        found[pixels, 8 * width, width] += layers
        found[pixels, width, 4 * width] += layers
    return found


def test_the_denoiser_has_the_products_of_its_published_configuration() -> None:
    operators = list(diffusion.UNet("h200", 2, 1024).operators())
    found = Counter(one.key[1:] for one in operators if one.key[0] == "gemm")
    assert found == gemms(2)
    norms = sum(one.kind == "norm" for one in operators)
    assert norms == 2 * len(BLOCKS) + sum(1 + 3 * layers for _, _, layers in TRANSFORMERS) + 1
    attended = Counter(one.key[1:] for one in operators if one.key[0] == "attention")
    assert attended == {
        (4096, 4096, 10): 10,
        (4096, 77, 10): 10,
        (1024, 1024, 20): 60,
        (1024, 77, 20): 60,
    }
    streams = Counter((one.kind, one.key[2]) for one in operators if one.key[0] == "stream")
    activated = {("activation", 4 * 640): 10, ("activation", 4 * 1280): 60}
    assert {key: n for key, n in streams.items() if key[0] == "activation"} == activated
    assert sum(n for (kind, _), n in streams.items() if kind == "addition") == len(BLOCKS)


@pytest.mark.parametrize(("side", "batch"), [(1024, 1), (512, 2)])
def test_the_denoiser_needs_its_weights_its_widest_layers_and_the_reserve(
    side: int, batch: int
) -> None:
    found = diffusion.predict_image_generation("h200", diffusion.Request(batch, side, 1))
    widest = 2 * batch * (side // 8) ** 2 * 960
    assert found.memory_gb == pytest.approx(2 * (2_567_463_684 + 4 * widest) / 1e9 + 2)


def test_siblings_use_the_parameters_with_a_note() -> None:
    for board, donor in (
        ("a100-40gb", "a100-80gb"),
        ("a30", "a100-80gb"),
        ("h100-nvl", "h100-80gb"),
    ):
        found = parameters.nearest("gemm", board, "bf16", "vllm")
        own = parameters.load("gemm", f"{donor}/bf16/vllm")
        assert found.values == own.values
        assert found.note == (
            f"no measurements of {board}: parameters and interval are those of {donor}"
        )
        assert found.residual is None
    for board, donor in (
        ("a100-80gb", "h100-80gb"),
        ("gb200", "b200"),
        ("rtx-pro-6000", "l40s"),
        ("a30", "h100-80gb"),
    ):
        found = parameters.nearest("stream", board, "elementwise", "vllm")
        assert found.values == parameters.load("stream", f"{donor}/elementwise/vllm").values
    own = parameters.nearest("gemm", "h200", "bf16", "vllm")
    assert own.note == ""
    assert own.residual is not None
    alike = parameters.nearest("gemm", "h200", "fp16", "vllm")
    assert alike.residual == own.residual
    assert parameters.nearest("gemm", "h200", "tf32", "vllm").residual is None
    with pytest.raises(UnknownModel, match=r"gemm on a30 nor on its sibling a100-80gb \(fp8\)"):
        parameters.nearest("gemm", "a30", "fp8", "vllm")
    with pytest.raises(UnknownModel, match=r"fitted for gemm on h200/bf16/none; there are "):
        parameters.load("gemm", "h200/bf16/none")
