"""Kernels bound by arithmetic: Mandelbrot's set, bodies, random numbers, powers; and a launch."""

import numpy as np

from benchmarks.exec.contest import (
    FIFTEEN,
    NATIVE,
    POCL,
    Array,
    Buffers,
    Call,
    Contest,
    Launch,
    Problem,
    WrongResult,
    near,
    same,
)

_BLOCK = (256, 1, 1)
_MODULUS = np.uint32(0xFFFFFFFB)  # a prime


def _mandelbrot(width: int, height: int) -> Problem:
    arguments = ("out", np.int32(width), np.int32(height))

    def check(results: Buffers) -> None:
        rows = np.arange(0, height, 16)
        expected = _iterations(width, height, rows)
        wrong = np.count_nonzero(results["out"][rows] != expected)
        # Depending on rounding, some orbits near the edge escape at another iteration.
        if wrong > 0.01 * expected.size:
            raise WrongResult(f"{wrong} of {expected.size} pixels differ")

    return Problem(
        {"out": np.full((height, width), -1, np.int32)},
        (Launch("mandelbrot", (-(-width // 32), -(-height // 8), 1), (32, 8, 1), arguments),),
        check,
        Call("mandelbrot", arguments),
    )


def _iterations(width: int, height: int, rows: Array) -> Array:
    x, y = np.arange(width, dtype=np.float32), rows.astype(np.float32)[:, None]
    c = np.float32(-2) + 3 * x / np.float32(width) + 1j * (2 * y / np.float32(height) - 1)
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(256):
        stays = z.real**2 + z.imag**2 <= 4
        z[stays] = z[stays] ** 2 + c[stays]
        count += stays
    return count


def _bodies(number: int) -> Problem:
    random = np.random.default_rng(7)
    body = random.random((number, 4), dtype=np.float32)
    arguments = ("body", "acceleration", np.int32(number))

    def check(results: Buffers) -> None:
        sample = np.arange(0, number, 37)
        apart = body[None, :, :3].astype(np.float64) - body[sample, None, :3]
        scale = body[None, :, 3] * (np.sum(apart**2, axis=2) + 1e-3) ** -1.5
        expected = np.sum(apart * scale[:, :, None], axis=1)
        size = float(np.abs(expected).max())
        got = results["acceleration"][sample, :3]
        near(got, expected, "acceleration", relative=1e-3, absolute=1e-4 * size)

    return Problem(
        {"body": body, "acceleration": np.full_like(body, np.nan)},
        (Launch("nbody", (number // 256, 1, 1), _BLOCK, arguments),),
        check,
        Call("nbody", arguments),
    )


def _philox(number: int) -> Problem:
    seed = (np.uint32(0x12345678), np.uint32(0x9ABCDEF0))

    def check(results: Buffers) -> None:
        same(results["out"], _philox_words(number, *map(int, seed)), "out")

    return Problem(
        {"out": np.zeros((number, 4), np.uint32)},
        (Launch("philox", (number // 256, 1, 1), _BLOCK, ("out", *seed)),),
        check,
        Call("philox", ("out", *seed, np.int32(number))),
    )


def _philox_words(number: int, k: int, m: int) -> Array:
    """Philox4x32-10 of counters 0 ... number - 1 (Salmon et al. 2011), shape (number, 4)."""
    low = np.uint64(0xFFFFFFFF)
    x = np.arange(number, dtype=np.uint64)
    y, z, w = (np.zeros_like(x) for _ in range(3))
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
        x, y = (second >> np.uint64(32)) ^ y ^ np.uint64(k), second & low
        z, w = (first >> np.uint64(32)) ^ w ^ np.uint64(m), first & low
        k, m = (k + 0x9E3779B9) & 0xFFFFFFFF, (m + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x, y, z, w], axis=1).astype(np.uint32)


def _modpow(number: int) -> Problem:
    base = np.random.default_rng(8).integers(1, int(_MODULUS), number, dtype=np.uint32)
    exponent = np.uint32(0xB504F333)

    def check(results: Buffers) -> None:
        sample = slice(0, number, 101)
        powers = [pow(int(b), int(exponent), int(_MODULUS)) for b in base[sample]]
        same(results["out"][sample], np.array(powers, np.uint32), "out")

    arguments = ("base", "out", exponent, _MODULUS)
    return Problem(
        {"base": base, "out": np.zeros_like(base)},
        (Launch("modpow", (number // 256, 1, 1), _BLOCK, arguments),),
        check,
        Call("modpow", (*arguments, np.int32(number))),
    )


def _launch(_tiny: bool) -> Problem:
    def check(results: Buffers) -> None:
        same(results["out"], np.ones(2, np.int32), "out")

    return Problem(
        {"out": np.zeros(2, np.int32)},
        (Launch("launch", (2, 1, 1), (32, 1, 1), ("out",)),),
        check,
    )


CONTESTS = (
    Contest(
        "mandelbrot",
        "mandelbrot",
        lambda tiny: _mandelbrot(90, 50) if tiny else _mandelbrot(1920, 1080),
        {POCL: 0.95, NATIVE: 1.5},
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "nbody",
        "nbody",
        lambda tiny: _bodies(256 if tiny else 8192),
        {POCL: 0.95, NATIVE: 1.5},
        work=(20 * 8192**2 * 1e-9, "GFLOP"),
        tags=frozenset({FIFTEEN}),
    ),
    Contest(
        "philox",
        "philox",
        lambda tiny: _philox(256 if tiny else 1 << 20),
        {NATIVE: 1.0, POCL: None},
    ),
    Contest(
        "modpow",
        "modpow",
        lambda tiny: _modpow(256 if tiny else 1 << 18),
        {NATIVE: 1.0, POCL: None},
    ),
    Contest("launch", "launch", _launch, {POCL: 0.95}),
)
