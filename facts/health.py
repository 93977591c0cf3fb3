"""What the health of a GPU or a slice, as gpud and statuses state it, means for its use."""

_IN_SERVICE = ("Healthy", "Suspect")


def is_in_service(health: str) -> bool:
    """Return whether a device with this health is offered to pods; its cause follows a colon."""
    return health.partition(":")[0] in _IN_SERVICE
