"""Every error that ``rdma`` raises, drawn as one tree.

RdmaError
├── PolicyError   an object that cannot be compiled; names its field and the remedy
│   └── OverBudgetError   a policy for which its namespace has no room left in the tables
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


class OverBudgetError(PolicyError):
    """A valid policy that does not fit into its namespace's part of the tables."""


class TablesError(RdmaError):
    """Tables that are not what this version writes."""
