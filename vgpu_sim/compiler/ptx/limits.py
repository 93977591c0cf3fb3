"""Bounds for the parser: PTX comes from tenants and may be malicious.

Each bound is far above what compilers emit, and low enough that parsing stays linear and
shallow.
"""

# The largest size of an image in bytes (hal.messages.MAX_IMAGE_BYTES).
MAX_SOURCE_CHARACTERS = 64 << 20
MAX_NUMBER_CHARACTERS = 80
MAX_IDENTIFIER_CHARACTERS = 16384  # C++ mangled names reach a few thousand
MAX_BLOCK_DEPTH = 64  # nested { } scopes
MAX_EXPRESSION_DEPTH = 32  # nested parentheses and operators
MAX_INITIALIZER_DEPTH = 16  # nested { } in initial values
CONSTANT_BANKS = 11  # PTX ISA, "Banked Constant State Space"
MAX_INDEXED = 1 << 16  # kernels and functions of a file that are compiled one at a time
