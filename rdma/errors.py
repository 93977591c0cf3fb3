"""Every error that ``rdma`` raises, drawn as one tree.

RdmaError
├── PolicyError   an object that cannot be compiled; names its field and the remedy
└── TablesError   a document of tables that cannot be read; the tables in force stay
"""


class RdmaError(Exception):
    """Base of all errors of this package."""


class PolicyError(RdmaError):
    """A field of an object that says nothing that can be enforced."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field}: {problem}; {remedy}")


class TablesError(RdmaError):
    """Tables that are not what this version writes."""
