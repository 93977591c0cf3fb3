"""Every error of this package; the type says what the work queue does about it.

OperatorError
├── ConfigError         the operator cannot start
└── KubeError           the API server said no, or nothing
    ├── Unreachable     retry with backoff
    ├── Conflict        somebody else was faster: reconcile again from what is there now
    ├── NotFound        it is gone: reconcile again
    ├── Refused         forbidden or invalid: retried slowly, it needs a person
    └── EvictionBlocked a PodDisruptionBudget forbids the eviction for now
NotLeader               stop: another replica holds the lease
"""


class OperatorError(Exception):
    """Base of all errors of this package."""


class ConfigError(OperatorError):
    """The configuration file or the environment is wrong; names the field."""


class KubeError(OperatorError):
    """The API server did not do what was asked."""


class Unreachable(KubeError):
    """No answer, or an answer that says to try again."""


class Conflict(KubeError):
    """The object is not the one that was meant, or was changed meanwhile."""


class NotFound(KubeError):
    """There is no such object."""


class Refused(KubeError):
    """Forbidden or invalid."""


class EvictionBlocked(KubeError):
    """A PodDisruptionBudget forbids the eviction for now."""


class NotLeader(OperatorError):
    """This replica does not hold the lease; nothing may be written."""
