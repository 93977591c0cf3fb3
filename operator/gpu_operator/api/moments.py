"""Points in time as the API has them, which people may write as well."""

import datetime


def moment(text: str) -> datetime.datetime | None:
    """Read an RFC 3339 time; what a person broke, or left without its zone, is none."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
