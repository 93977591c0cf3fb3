"""Textbook programs: the repository's PTX in benchmarks/exec/kernels, in several sizes."""

from pathlib import Path
from typing import Final

from benchmarks.silicon.times.points import Argument, Point, Shape

_KERNELS: Final = Path(__file__).parents[2] / "exec" / "kernels"


def _floats(count: int) -> Argument:
    return ("buffer", "floats", 4 * count)


def _zeros(size: int) -> Argument:
    return ("buffer", "zeros", size)


def _s32(value: int) -> Argument:
    return ("s32", value)


def _point(
    name: str,
    kind: str,
    file: str,
    grid: Shape,
    block: Shape,
    *arguments: Argument,
    kernel: str = "",
) -> Point:
    source = (_KERNELS / f"{file}.ptx").read_text(encoding="utf-8")
    return Point(name, kind, source, kernel or file, grid, block, arguments)


def _matrices() -> list[Point]:
    kernels = []
    for n in (256, 1024, 2048):
        arguments = [_floats(n * n), _floats(n * n), _zeros(4 * n * n), _s32(n)]
        shapes: tuple[tuple[str, str, Shape, Shape], ...] = (
            ("sgemm_naive", "", (n // 32, n // 8, 1), (32, 8, 1)),
            ("sgemm_tiled", "sgemm_tiled16", (n // 16, n // 16, 1), (16, 16, 1)),
            ("sgemm_tiled", "sgemm_tiled32", (n // 32, n // 32, 1), (32, 32, 1)),
            ("sgemm_register", "", (n // 128, n // 128, 1), (16, 16, 1)),
        )
        for file, kernel, grid, block in shapes:
            if n == 2048 and file != "sgemm_register":
                continue
            name = f"{kernel or file} {n}"
            kernels.append(_point(name, "sgemm", file, grid, block, *arguments, kernel=kernel))
    for n in (512, 1024, 2048):
        brains = ("buffer", "brains", 2 * n * n)
        kernels.append(
            _point(
                f"bf16_gemm {n}",
                "tensor cores",
                "bf16_gemm",
                (n // 128, n // 128, 1),
                (128, 1, 1),
                brains,
                brains,
                _zeros(4 * n * n),
                ("u32", n),
                ("u32", n),
            )
        )
    return kernels


def _rows() -> list[Point]:
    kernels = []
    for count in (1 << 16, 1 << 20, 1 << 24):
        kernels.append(
            _point(
                f"vecadd {count}",
                "stream",
                "vecadd",
                (count // 256, 1, 1),
                (256, 1, 1),
                _floats(count),
                _floats(count),
                _zeros(4 * count),
                _s32(count),
            )
        )
        kernels.append(
            _point(
                f"reduction {count}",
                "reduction",
                "reduction",
                (count // 512, 1, 1),
                (256, 1, 1),
                _floats(count),
                _zeros(4 * count // 512),
                _s32(count),
            )
        )
    for rows in (128, 4096, 16384):
        kernels.append(
            _point(
                f"softmax {rows} x 1024",
                "reduction",
                "softmax",
                (rows, 1, 1),
                (256, 1, 1),
                _floats(rows * 1024),
                _zeros(rows * 4096),
            )
        )
    for rows, columns in ((256, 4096), (4096, 1024)):
        kernels.append(
            _point(
                f"layernorm {rows} x {columns}",
                "reduction",
                "layernorm",
                (rows, 1, 1),
                (256, 1, 1),
                _floats(rows * columns),
                _floats(columns),
                _floats(columns),
                _zeros(4 * rows * columns),
                _s32(columns),
            )
        )
    for sequence, heads in ((1024, 4), (1024, 16)):
        tensor = _floats(heads * sequence * 64)
        kernels.append(
            _point(
                f"attention {sequence}, {heads} heads",
                "compute",
                "attention",
                (sequence // 64, heads, 1),
                (64, 1, 1),
                tensor,
                tensor,
                tensor,
                _zeros(heads * sequence * 256),
                _s32(sequence),
            )
        )
    return kernels


def _grids() -> list[Point]:
    kernels = []
    for n in (512, 2048):
        for file in ("stencil5",):
            kernels.append(
                _point(
                    f"{file} {n}",
                    "stencil",
                    file,
                    (n // 32, n // 8, 1),
                    (32, 8, 1),
                    _floats(n * n),
                    _zeros(4 * n * n),
                    _s32(n),
                )
            )
        kernels.append(
            _point(
                f"halo_stencil {n}",
                "stencil",
                "halo_stencil",
                (n // 32, n // 8, 1),
                (32, 8, 1),
                _floats(n * n),
                _zeros(4 * n * n),
                _s32(n),
                _s32(n),
            )
        )
    kernels.append(
        _point(
            "stencil_f64 192",
            "stencil",
            "stencil_f64",
            (6, 24, 192),
            (32, 8, 1),
            ("buffer", "doubles", 8 * 192**3),
            _zeros(8 * 192**3),
            _s32(192),
        )
    )
    kernels.append(
        _point(
            "mandelbrot 1920 x 1080",
            "compute",
            "mandelbrot",
            (60, 135, 1),
            (32, 8, 1),
            _zeros(4 * 1920 * 1080),
            _s32(1920),
            _s32(1080),
        )
    )
    return kernels


def _others() -> list[Point]:
    kernels = []
    for entry in ("histogram_shared", "histogram_global"):
        for count in (1 << 18, 1 << 22):
            blocks = 256 if entry == "histogram_shared" else count // 256
            kernels.append(
                _point(
                    f"{entry} {count}",
                    "atomics",
                    "histogram",
                    (blocks, 1, 1),
                    (256, 1, 1),
                    ("buffer", "bytes", count),
                    _zeros(1024),
                    _s32(count),
                    kernel=entry,
                )
            )
    for count in (4096, 16384):
        bodies = ("buffer", "floats", 16 * count)
        kernels.append(
            _point(
                f"nbody {count}",
                "compute",
                "nbody",
                (count // 256, 1, 1),
                (256, 1, 1),
                bodies,
                _zeros(16 * count),
                _s32(count),
            )
        )
    count = 1 << 20
    many = (count // 256, 1, 1)
    word, words = ("buffer", "bytes", 4 * count), _zeros(16 * count)
    kernels += [
        _point(
            "black_scholes 1M",
            "compute",
            "black_scholes",
            many,
            (256, 1, 1),
            *(_floats(count),) * 3,
            *(_zeros(4 * count),) * 2,
            ("f32", 0.02),
            ("f32", 0.3),
            _s32(count),
        ),
        _point("philox 1M", "compute", "philox", many, (256, 1, 1), words, ("u32", 1), ("u32", 2)),
        _point(
            "modpow 256K",
            "compute",
            "modpow",
            (1024, 1, 1),
            (256, 1, 1),
            word,
            _zeros(4 * count),
            ("u32", 0xB504F333),
            ("u32", 0xFFFFFFFB),
        ),
        _point(
            "sha256 128K",
            "compute",
            "sha256",
            (512, 1, 1),
            (256, 1, 1),
            ("buffer", "bytes", 32 << 17),
            _zeros(32 << 17),
            _s32(1 << 17),
        ),
        _point(
            "fft 4096 x 1024",
            "compute",
            "fft",
            (4096, 1, 1),
            (256, 1, 1),
            _floats(2 * 4096 * 1024),
            _zeros(8 * 4096 * 1024),
            _floats(2 * 1024),
        ),
        _point(
            "spmv 256K rows",
            "gather",
            "spmv",
            (1024, 1, 1),
            (256, 1, 1),
            ("buffer", "rows", 4 * (1 << 18) + 4),
            ("buffer", f"indices:{1 << 18}", 4 * 28 << 18),
            _floats(28 << 18),
            _floats(1 << 18),
            _zeros(4 << 18),
            _s32(1 << 18),
        ),
        _point(
            "life 2048",
            "stencil",
            "life",
            (64, 256, 1),
            (32, 8, 1),
            ("buffer", "bytes", 1 << 22),
            _zeros(1 << 22),
            _s32(2048),
            _s32(2048),
        ),
    ]
    keys, blocks = 1 << 22, 1 << 10
    counts = _zeros(1024 * blocks)
    sorts: tuple[tuple[str, Shape, Shape, tuple[Argument, ...]], ...] = (
        (
            "radix_count",
            (blocks, 1, 1),
            (256, 1, 1),
            (("buffer", "bytes", 4 * keys), counts, _s32(keys), _s32(0)),
        ),
        ("radix_scan", (1, 1, 1), (1024, 1, 1), (counts, _s32(256 * blocks))),
    )
    for entry, grid, block, arguments in sorts:
        kernels.append(
            _point(
                f"{entry} 4M", "sort and scan", "radix_sort", grid, block, *arguments, kernel=entry
            )
        )
    return kernels


def points() -> list[Point]:
    """Return all programs."""
    return [*_matrices(), *_rows(), *_grids(), *_others()]
