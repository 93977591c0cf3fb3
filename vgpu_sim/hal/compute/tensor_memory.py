"""Tensor memory of a block (compute capability 10.0): 128 lanes of 512 columns of 32 bits.

It is at fixed addresses of shared memory, beyond all that a block can have: lane by lane, and the
words of a lane by column. An address of PTX has the lane in its upper half and the column in its
lower one. After the lanes, four words record what is allocated. The generated C header defines the
constants as ``TESSERA_...``.
"""

from typing import Final

TENSOR_LANES: Final = 128
TENSOR_COLUMNS: Final = 512
TENSOR_UNIT_COLUMNS: Final = 32  # of the least allocation
TENSOR_LANE_BYTES: Final = 4 * TENSOR_COLUMNS

# The address of lane 0, column 0. No block has as many bytes of shared memory (227 KiB).
TENSOR_FIRST_BYTE: Final = 1 << 18

# The address of the word of allocations: bit n is set if columns 32n to 32n + 31 are allocated, and
# bit 16 + n if an allocation begins there.
TENSOR_ALLOCATED: Final = TENSOR_FIRST_BYTE + TENSOR_LANES * TENSOR_LANE_BYTES

# The address of a word that is 1 after ``tcgen05.relinquish_alloc_permit``.
TENSOR_RELINQUISHED: Final = TENSOR_ALLOCATED + 4

# In the even block of a pair: the address of a word that is 1 while one of the pair's blocks
# allocates, and of one with what it has allocated, until the other block has read it.
TENSOR_PAIR_LOCK: Final = TENSOR_ALLOCATED + 8
TENSOR_PAIR_MESSAGE: Final = TENSOR_ALLOCATED + 12

# The bytes of shared memory that are mapped for a block with tensor memory.
TENSOR_END_BYTE: Final = TENSOR_ALLOCATED + 4096

# The number of words that TMMA reads.
TENSOR_WORDS: Final = 16
