"""SipHash-2-4 with 128 bits of output (Aumasson and Bernstein), as an oracle."""

_MASK = (1 << 64) - 1


def _rotate(word: int, count: int) -> int:
    return (word << count | word >> (64 - count)) & _MASK


def _mix(state: list[int], rounds: int) -> None:
    a, b, c, d = state
    for _ in range(rounds):
        a = (a + b) & _MASK
        c = (c + d) & _MASK
        b = _rotate(b, 13) ^ a
        d = _rotate(d, 16) ^ c
        a = (_rotate(a, 32) + d) & _MASK
        c = (c + b) & _MASK
        d = _rotate(d, 21) ^ a
        b = _rotate(b, 17) ^ c
        c = _rotate(c, 32)
    state[:] = a, b, c, d


def siphash(key: bytes, data: bytes) -> bytes:
    """Return the 16 bytes for a key of 16 bytes and data of any length."""
    first, second = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    state = [
        first ^ 0x736F6D6570736575,
        second ^ 0x646F72616E646F6D ^ 0xEE,
        first ^ 0x6C7967656E657261,
        second ^ 0x7465646279746573,
    ]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        state[3] ^= word
        _mix(state, 2)
        state[0] ^= word
    value = b""
    for index, change in ((2, 0xEE), (1, 0xDD)):
        state[index] ^= change
        _mix(state, 4)
        value += (state[0] ^ state[1] ^ state[2] ^ state[3]).to_bytes(8, "little")
    return value
