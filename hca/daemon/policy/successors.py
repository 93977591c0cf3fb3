"""Check whether tables may replace those in force: they must be newer, and for the same node."""

from rdma.tables import NodeTables


class StaleTables(Exception):
    """The tables are older than those in force, or are another node's; the message states which."""


def check_successor(old: NodeTables | None, tables: NodeTables) -> None:
    """Check that ``tables`` may replace ``old``.

    Raises:
        StaleTables: ``tables`` are another node's, have a lower generation than ``old``, or have
            the same generation but different content.
    """
    if old is None:
        return
    if tables.node != old.node:
        raise StaleTables(f"the tables are for node {tables.node!r}, not for {old.node!r}")
    if tables.generation < old.generation:
        raise StaleTables(
            f"generation {tables.generation} is older than the enforced generation {old.generation}"
        )
    if tables.generation == old.generation and tables != old:
        raise StaleTables(
            f"generation {tables.generation} is already enforced, but with different tables"
        )
