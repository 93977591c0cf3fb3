"""Text that names slices: "3g.40gb@4", "2x2g.20gb,1g.10gb". Parsing is strict."""

from mig.geometry import Instance
from mig.spec.notation import (
    Place,
    format_instance,
    format_instances,
    format_place,
    format_places,
    format_requests,
    parse_instance,
    parse_instances,
    parse_places,
    parse_requests,
)

__all__ = [
    "Instance",
    "Place",
    "format_instance",
    "format_instances",
    "format_place",
    "format_places",
    "format_requests",
    "parse_instance",
    "parse_instances",
    "parse_places",
    "parse_requests",
]
