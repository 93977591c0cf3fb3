"""Which tables may take the place of those in force: newer ones, of the same node."""

from rdma.tables import NodeTables


class StaleTables(Exception):
    """Tables older than those in force, or another node's; the message says which."""


def check_successor(old: NodeTables | None, tables: NodeTables) -> None:
    """Check that tables may follow ``old``.

    Raises:
        StaleTables: they are older, other ones of the same generation, or another node's.
    """
    if old is None:
        return
    if tables.node != old.node:
        raise StaleTables(f"tables of node {tables.node!r}: this is {old.node!r}")
    if tables.generation < old.generation:
        raise StaleTables(f"generation {tables.generation}: {old.generation} is enforced")
    if tables.generation == old.generation and tables != old:
        raise StaleTables(f"generation {tables.generation}: other tables of it are enforced")
