"""All errors of this package; the type determines how the work queue reacts.

OperatorError
├── ConfigError         the operator cannot start
└── KubeError           the API server refused a request, or did not respond
    ├── Unreachable     retry with backoff
    ├── Conflict        the object was changed concurrently: reconcile again from its current state
    ├── NotFound        the object is gone: reconcile again
    ├── Refused         forbidden or invalid: retry slowly; a person must fix the cause
    └── EvictionBlocked a PodDisruptionBudget forbids the eviction for now
NotLeader               stop: another replica holds the lease
"""


class OperatorError(Exception):
    """Base of all errors of this package."""


class ConfigError(OperatorError):
    """The configuration file or the environment is invalid; the message names the field."""


class KubeError(OperatorError):
    """The API server did not carry out a request."""


class Unreachable(KubeError):
    """The API server did not respond, or requested a retry."""


class Conflict(KubeError):
    """The object was changed concurrently, or is not the expected one."""


class NotFound(KubeError):
    """The object does not exist."""


class Refused(KubeError):
    """The API server refused the request as forbidden or invalid."""


class EvictionBlocked(KubeError):
    """A PodDisruptionBudget forbids the eviction for now."""


class NotLeader(OperatorError):
    """This replica does not hold the lease, so it must not write."""
