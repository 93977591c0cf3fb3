"""Whole algorithms: attention, layer norm, sort, FFT, options, hashes, Life, a halo stencil."""

import hashlib
from collections.abc import Callable

import numpy as np

from benchmarks.exec.contest import (
    NATIVE,
    Array,
    Buffers,
    Call,
    Contest,
    Launch,
    Problem,
    Work,
    near,
    same,
)

_GOALS: dict[str, float | None] = {NATIVE: 1.0}
_TAGS = frozenset({"algorithms"})


def _library(work: Callable[[Buffers], object]) -> Callable[[Buffers], Work]:
    """Return a maker of a contender that calls ``work`` on its buffers."""

    def maker(buffers: Buffers) -> Work:
        def once() -> None:
            work(buffers)

        return once

    return maker


def _softmax_product(q: Array, k: Array, v: Array) -> Array:
    scores = np.matmul(q, k.transpose(0, 2, 1))
    scores *= q.dtype.type(0.125)
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    product: Array = np.matmul(scores, v)
    return product


def attention(tiny: bool) -> Problem:
    """Return attention over [heads][sequence][64]."""
    heads, sequence = (2, 128) if tiny else (16, 1024)
    random = np.random.default_rng(20)
    q, k, v = (random.standard_normal((heads, sequence, 64), np.float32) for _ in range(3))

    def check(results: Buffers) -> None:
        expected = _softmax_product(*(a.astype(np.float64) for a in (q, k, v)))
        near(results["out"], expected, "attention", 1e-4, 1e-4)

    def numpy(buffers: Buffers) -> None:
        buffers["out"][...] = _softmax_product(buffers["q"], buffers["k"], buffers["v"])

    arguments = ("q", "k", "v", "out", np.int32(sequence))
    return Problem(
        {"q": q, "k": k, "v": v, "out": np.zeros_like(q)},
        (Launch("attention", (sequence // 64, heads, 1), (64, 1, 1), arguments),),
        check,
        Call("attention", (*arguments, np.int32(heads))),
        {"numpy and OpenBLAS": _library(numpy)},
    )


def _normalise(x: Array, gamma: Array, beta: Array) -> Array:
    apart = x - x.mean(axis=1, keepdims=True)
    apart /= np.sqrt(np.square(apart).mean(axis=1, keepdims=True) + x.dtype.type(1e-5))
    normalised_rows: Array = apart * gamma + beta
    return normalised_rows


def layernorm(tiny: bool) -> Problem:
    """Return a normalisation of rows of 1024."""
    rows, columns = (5, 300) if tiny else (8192, 1024)
    random = np.random.default_rng(21)
    x = random.standard_normal((rows, columns), np.float32)
    gamma, beta = (random.standard_normal(columns, np.float32) for _ in range(2))

    def check(results: Buffers) -> None:
        expected = _normalise(*(a.astype(np.float64) for a in (x, gamma, beta)))
        near(results["y"], expected, "layernorm", 1e-4, 1e-4)

    def numpy(buffers: Buffers) -> None:
        buffers["y"][...] = _normalise(buffers["x"], buffers["gamma"], buffers["beta"])

    arguments = ("x", "gamma", "beta", "y", np.int32(columns))
    return Problem(
        {"x": x, "gamma": gamma, "beta": beta, "y": np.zeros_like(x)},
        (Launch("layernorm", (rows, 1, 1), (256, 1, 1), arguments),),
        check,
        Call("layernorm", (*arguments, np.int32(rows))),
        {"numpy": _library(numpy)},
    )


def radix_sort(tiny: bool) -> Problem:
    """Return a sort of 32-bit keys: four passes of three launches."""
    count = 9001 if tiny else 1 << 22
    keys = np.random.default_rng(22).integers(0, 1 << 32, count, np.uint32)
    blocks = -(-count // 4096)

    def step(source: str, target: str, shift: int) -> tuple[Launch, ...]:
        n, by = np.int32(count), np.int32(shift)
        grid, block = (blocks, 1, 1), (256, 1, 1)
        return (
            Launch("radix_count", grid, block, (source, "counts", n, by)),
            Launch("radix_scan", (1, 1, 1), (1024, 1, 1), ("counts", np.int32(256 * blocks))),
            Launch("radix_scatter", grid, block, (source, target, "counts", n, by)),
        )

    def numpy(buffers: Buffers) -> None:
        buffers["two"][...] = np.sort(buffers["keys"])

    buffer_pairs = (("keys", "one"), ("one", "two"), ("two", "one"), ("one", "two"))
    empty = np.zeros_like(keys)
    return Problem(
        {"keys": keys, "one": empty, "two": empty, "counts": np.zeros(256 * blocks, np.uint32)},
        tuple(
            launch
            for i, buffer_pair in enumerate(buffer_pairs)
            for launch in step(*buffer_pair, 8 * i)
        ),
        lambda results: same(results["two"], np.sort(keys), "radix sort"),
        Call("radix_sort", ("keys", "one", "two", np.int32(count))),
        {"numpy's sort, one core": _library(numpy)},
    )


def fft(tiny: bool) -> Problem:
    """Return transforms of 1024 complex numbers."""
    batch = 3 if tiny else 4096
    x = np.random.default_rng(23).standard_normal((batch, 2048), np.float32)
    turns = np.exp(-2j * np.pi * np.arange(1024) / 1024).astype(np.complex64)

    def check(results: Buffers) -> None:
        expected = np.fft.fft(x.view(np.complex64).astype(np.complex128))
        near(results["out"], expected.view(np.float64), "fft", 1e-4, 1e-3)

    def numpy(buffers: Buffers) -> None:
        np.fft.fft(buffers["x"].view(np.complex64), out=buffers["out"].view(np.complex64))

    arguments = ("x", "out", "roots")
    return Problem(
        {"x": x, "out": np.zeros_like(x), "roots": turns.view(np.float32)},
        (Launch("fft", (batch, 1, 1), (256, 1, 1), arguments),),
        check,
        Call("fft", (*arguments, np.int32(batch))),
        {"numpy's pocketfft, one core": _library(numpy)},
    )


def _prices(s: Array, x: Array, t: Array, rate: float, volatility: float) -> tuple[Array, Array]:
    def below(d: Array) -> Array:
        k = 1 / (1 + 0.2316419 * np.abs(d))
        poly = 1.781477937 + k * (-1.821255978 + k * 1.330274429)
        poly = k * (0.31938153 + k * (-0.356563782 + k * poly))
        tail = 0.39894228 * np.exp(-0.5 * d * d) * poly
        probability: Array = np.where(d > 0, 1 - tail, tail)
        return probability

    spread = volatility * np.sqrt(t)
    d1 = ((rate + 0.5 * volatility * volatility) * t + np.log(s / x)) / spread
    n1, n2, later = below(d1), below(d1 - spread), x * np.exp(-rate * t)
    return s * n1 - later * n2, later * (1 - n2) - s * (1 - n1)


def black_scholes(tiny: bool) -> Problem:
    """Return calls and puts of European options."""
    count, rate, volatility = 1001 if tiny else 1 << 22, 0.02, 0.3
    random = np.random.default_rng(24)
    s, x, t = (
        random.uniform(*ends, count).astype(np.float32) for ends in ((5, 30), (1, 100), (0.25, 10))
    )

    def check(results: Buffers) -> None:
        expected = _prices(*(a.astype(np.float64) for a in (s, x, t)), rate, volatility)
        for name, prices in zip(("call", "put"), expected, strict=True):
            near(results[name], prices, name, 1e-4, 1e-4)

    def numpy(buffers: Buffers) -> None:
        inputs = (buffers[name] for name in ("price", "strike", "years"))
        buffers["call"][...], buffers["put"][...] = _prices(*inputs, rate, volatility)

    sizes = (np.float32(rate), np.float32(volatility), np.int32(count))
    arguments = ("price", "strike", "years", "call", "put", *sizes)
    empty = np.zeros_like(s)
    return Problem(
        {"price": s, "strike": x, "years": t, "call": empty, "put": empty},
        (Launch("black_scholes", (-(-count // 256), 1, 1), (256, 1, 1), arguments),),
        check,
        Call("black_scholes", arguments),
        {"numpy, one core": _library(numpy)},
    )


def sha256(tiny: bool) -> Problem:
    """Return hashes of messages of 32 bytes."""
    count = 300 if tiny else 1 << 19
    messages = np.random.default_rng(25).integers(0, 1 << 32, 8 * count, np.uint32)
    sample = slice(0, count, max(1, count // 1000))

    def hash_words(data: Array) -> Array:
        texts = data.astype(">u4").tobytes()
        digests = [hashlib.sha256(texts[i : i + 32]).digest() for i in range(0, len(texts), 32)]
        return np.frombuffer(b"".join(digests), ">u4")

    def check(results: Buffers) -> None:
        expected = hash_words(messages.reshape(-1, 8)[sample].reshape(-1))
        same(results["digests"].reshape(-1, 8)[sample].reshape(-1), expected, "sha256")

    def library(buffers: Buffers) -> None:
        buffers["digests"][...] = hash_words(buffers["messages"])

    arguments = ("messages", "digests", np.int32(count))
    return Problem(
        {"messages": messages, "digests": np.zeros_like(messages)},
        (Launch("sha256", (-(-count // 256), 1, 1), (256, 1, 1), arguments),),
        check,
        Call("sha256", arguments),
        {"hashlib, one core": _library(library)},
    )


def _generation(cells: Array) -> Array:
    offsets = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    around = sum(np.roll(cells, offset, (0, 1)) for offset in offsets)
    next_cells: Array = ((around == 3) | ((around == 2) & (cells == 1))).astype(np.uint8)
    return next_cells


def life(tiny: bool) -> Problem:
    """Return a generation of Life."""
    width, height = (70, 45) if tiny else (4096, 4096)
    cells = np.random.default_rng(26).integers(0, 2, (height, width), np.uint8)

    def numpy(buffers: Buffers) -> None:
        buffers["next"][...] = _generation(buffers["now"])

    arguments = ("now", "next", np.int32(width), np.int32(height))
    return Problem(
        {"now": cells, "next": np.zeros_like(cells)},
        (Launch("life", (-(-width // 32), -(-height // 8), 1), (32, 8, 1), arguments),),
        lambda results: same(results["next"], _generation(cells), "life"),
        Call("life", arguments),
        {"numpy, one core": _library(numpy)},
    )


def halo_stencil(tiny: bool) -> Problem:
    """Return a 3 x 3 convolution through shared memory."""
    width, height = (70, 45) if tiny else (2048, 2048)
    image = np.random.default_rng(27).random((height, width), np.float32)

    def convolve(pixels: Array) -> Array:
        padded = np.pad(pixels, 1, mode="edge")
        across = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
        convolved_pixels: Array = (across[:-2] + 2 * across[1:-1] + across[2:]) / 16
        return convolved_pixels

    def numpy(buffers: Buffers) -> None:
        buffers["out"][...] = convolve(buffers["image"])

    arguments = ("image", "out", np.int32(width), np.int32(height))
    return Problem(
        {"image": image, "out": np.zeros_like(image)},
        (Launch("halo_stencil", (-(-width // 32), -(-height // 8), 1), (32, 8, 1), arguments),),
        lambda results: near(results["out"], convolve(image.astype(np.float64)), "stencil", 1e-5),
        Call("halo_stencil", arguments),
        {"numpy, one core": _library(numpy)},
    )


CONTESTS = tuple(
    Contest(problem.__name__, problem.__name__, problem, _GOALS, tags=_TAGS)
    for problem in (
        attention,
        layernorm,
        radix_sort,
        fft,
        black_scholes,
        sha256,
        life,
        halo_stencil,
    )
)
