"""PRMT selects any bytes of two words; with a constant selector it is one byte shuffle."""

from vgpu_sim.exec.jit.arithmetic.words import Words
from vgpu_sim.exec.jit.numbers.byte_choices import byte_selectors
from vgpu_sim.isa import Permute


def constant_permutation(words: Words, mode: Permute, a: str, b: str, selector: int) -> str:
    """Return the bytes of vectors ``a`` and ``b`` that a constant selector selects."""
    text, chosen = words.text, byte_selectors(mode, selector)
    count = 4 * text.width
    octets = f"<{count} x i8>"
    first, second = (text.let(f"bitcast {words.type} {v} to {octets}") for v in (a, b))
    places = [4 * lane + c % 4 + (c & 4) // 4 * count for lane in range(text.width) for c in chosen]
    value = text.let(f"shufflevector {octets} {first}, {octets} {second}, {_places(places)}")
    if any(choice & 8 for choice in chosen):
        signs = text.let(f"ashr {octets} {value}, splat (i8 7)")
        byte_places = [
            4 * lane + i + (count if c & 8 else 0)
            for lane in range(text.width)
            for i, c in enumerate(chosen)
        ]
        value = text.let(
            f"shufflevector {octets} {value}, {octets} {signs}, {_places(byte_places)}"
        )
    return text.let(f"bitcast {octets} {value} to {words.type}")


def permutation(words: Words, mode: Permute, a: str, b: str, selector: str) -> str:
    """Return the bytes of ``a`` and ``b`` that a run-time selector selects."""
    if mode is not Permute.NONE:
        selector = _selector(words, mode, selector)
    result = words.const(0)
    for place in range(4):
        choice = words.op("lshr", selector, words.const(4 * place))
        upper = _bit(words, choice, 4)
        source = words.select(upper, b, a)
        amount = words.op("shl", words.op("and", choice, words.const(3)), words.const(3))
        byte = words.op("lshr", source, amount)
        top = words.op("shl", byte, words.const(24))
        signs = words.op("ashr", top, words.const(31))
        byte = words.select(_bit(words, choice, 8), signs, byte)
        byte = words.op("and", byte, words.const(0xFF))
        result = words.op("or", result, words.op("shl", byte, words.const(8 * place)))
    return result


def _bit(words: Words, value: str, bit: int) -> str:
    return words.test("ne", words.op("and", value, words.const(bit)), words.const(0))


def _selector(words: Words, mode: Permute, n: str) -> str:
    """Return the selector that in PRMT's default mode has the effect of ``n`` in ``mode``."""
    cases = [sum(c << 4 * i for i, c in enumerate(byte_selectors(mode, case))) for case in range(4)]
    low, high = _bit(words, n, 1), _bit(words, n, 2)
    lower = words.select(low, words.const(cases[1]), words.const(cases[0]))
    upper = words.select(low, words.const(cases[3]), words.const(cases[2]))
    return words.select(high, upper, lower)


def _places(places: list[int]) -> str:
    return f"<{len(places)} x i32> <" + ", ".join(f"i32 {place}" for place in places) + ">"
