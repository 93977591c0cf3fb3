"""A virtual machine that runs a command of this checkout under a kernel from Debian's packages.

The machine has the root file system of this one, read-only, so it needs no image: what the command
writes is in the machine's memory and is gone with it (ADR 216).
"""
