"""Timestamps in API objects, which users may have edited."""

import datetime


def parse_timestamp(text: str) -> datetime.datetime | None:
    """Parse an RFC 3339 time. Return None if it is invalid or has no time zone."""
    try:
        timestamp = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return timestamp if timestamp.tzinfo is not None else None
