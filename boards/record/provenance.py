"""The source of a figure, so that a reader knows how far to trust it."""

from enum import StrEnum


class Provenance(StrEnum):
    """The kind of source from which a board's figures come.

    The members are sorted: the most reliable kind of source comes first.
    """

    HARDWARE = "hardware"
    """Printed by a real board's driver: ``nvidia-smi -q``, ``mig -lgip``, ``-lgipp``, ``-lcip``."""
    VENDOR_DOCUMENT = "vendor document"
    """From the vendor's MIG user guide or data sheet; not seen printed."""
    RECORDED = "recorded"
    """From a third party's test recording of driver output; not seen as a raw log."""
    DERIVED = "derived"
    """Computed from figures of the kinds above. Verify such a figure before relying on it."""
    UNVERIFIED = "unverified"
    """No source is known: the value is common knowledge, or it is None."""
