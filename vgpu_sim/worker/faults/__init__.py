"""The location and the description of a kernel's fault."""
