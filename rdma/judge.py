"""Who may do what to whom, by the tables of one node: what hcad asks for every connection."""

from rdma.tables import Flow, NodeTables, Verdict


class Judge:
    """Tables, prepared to be asked often."""

    def __init__(self, tables: NodeTables) -> None:
        self.tables = tables

    def judge(self, flow: Flow) -> Verdict:
        """Return what the flow may do: source's egress and destination's ingress and partitions."""
        raise NotImplementedError
