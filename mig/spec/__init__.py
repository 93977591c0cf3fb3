"""Text and documents that name slices: "3g.40gb@4", "2x2g.20gb,1g.10gb" and layouts. Strict."""

from mig.geometry import Instance
from mig.spec.notation import (
    format_instance,
    format_instances,
    format_requests,
    parse_entry,
    parse_instance,
    parse_instances,
    parse_requests,
)
from mig.spec.v1 import Layout, parse_layout

__all__ = [
    "Instance",
    "Layout",
    "format_instance",
    "format_instances",
    "format_requests",
    "parse_entry",
    "parse_instance",
    "parse_instances",
    "parse_layout",
    "parse_requests",
]
