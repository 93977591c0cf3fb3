"""The hardware abstraction layer: the contracts between a device and its users.

This package contains contracts, not code. ``worker`` implements them, ``gpud`` uses them, and
only ``machine`` depends on both. There is one folder for the contract with each kind of user:
``compute`` for programs, ``management`` for administrators, and ``observe`` for observers. The
package itself contains ``messages`` and the generator of the C headers.
"""
