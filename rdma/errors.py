"""Every error that ``rdma`` raises, drawn as one tree.

RdmaError
├── PolicyError   an object that cannot be compiled; names its field and the remedy
│   └── OverBudgetError   a policy for which its namespace has no room left in the tables
└── TablesError   a document of tables that cannot be read; the tables in force stay
"""


class RdmaError(Exception):
    """Base of all errors of the package ``rdma``."""


class PolicyError(RdmaError):
    """A field of a Kubernetes object has a value that cannot be enforced."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field}: {problem}; {remedy}")


class OverBudgetError(PolicyError):
    """A valid policy that does not fit into its namespace's budget in the tables."""


class TablesError(RdmaError):
    """Text that does not contain valid tables of this version."""
