"""Names for managed variables (PTX ISA, "Variable and Function Attribute Directive: .attribute").

A managed variable has one address for the host and for kernels, which is known only when a client
has allocated managed memory for it. The module has a second variable with that address, and
kernels load it. The client that loads the module copies the initial value from the segment to the
managed memory and stores the address. A client without managed memory leaves the variable in the
segment.
"""

from typing import Final

POINTER_PREFIX: Final = "tessera.managed."
"""Begins the name of the variable with a managed variable's address. PTX names have no dots."""


def pointer_name(name: str) -> str:
    """Return the name of the variable with the address of the managed variable ``name``."""
    return POINTER_PREFIX + name
