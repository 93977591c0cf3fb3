"""Encodes the parameters of a launch, as a key under which samples are stored, and as text that
distinguishes launches.
"""

from collections.abc import Callable
from typing import Final

from vgpu_sim.isa import Function

_LINE: Final = 128  # bytes: only a buffer's offset within this alignment affects the cost
_WORD: Final = 8
_MOST_TEXT: Final = 120


def key_of(parameters: bytes, place_of: Callable[[int], int | None]) -> bytes:
    """Return the key under which the samples of a launch with these parameters are stored.

    In the key, each address is replaced by two numbers: its offset in a cache line, and the
    number that ``place_of`` returns for it. The second number identifies a kind of memory.
    """
    words = []
    for at in range(0, len(parameters) - _WORD + 1, _WORD):
        word = int.from_bytes(parameters[at : at + _WORD], "little")
        place = place_of(word)
        if place is not None:
            word = 1 << 63 | place << 7 | word % _LINE
        words.append(word.to_bytes(_WORD, "little"))
    return b"".join(words) + parameters[len(words) * _WORD :]


def text_of(function: Function, parameters: bytes, place_of: Callable[[int], int | None]) -> str:
    """Return the launch parameters as text: integers, an asterisk for an address, and dots for
    other values.
    """
    texts = []
    for parameter in function.parameters:
        value = int.from_bytes(
            parameters[parameter.offset : parameter.offset + parameter.size], "little"
        )
        if parameter.size > _WORD:
            texts.append("...")
        elif parameter.size == _WORD and place_of(value) is not None:
            texts.append("*")
        else:
            texts.append(str(value))
    text = ", ".join(texts)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."
