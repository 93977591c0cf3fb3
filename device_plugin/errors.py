"""Every error of the node agent.

AgentError
├── DaemonError          a daemon refused a request; ``code`` says how (docs/gpud-admin.md)
│   ├── GpudError
│   ├── HcadError
│   └── LinkdError
├── DaemonUnreachable    no answer on a daemon's socket; worth retrying
│   ├── GpudUnreachable
│   ├── HcadUnreachable
│   └── LinkdUnreachable
├── PodResourcesError    the kubelet did not answer; worth retrying
├── KubeletSideLost      the process that serves the kubelet is away; worth retrying
├── ClusterError         the API server refused or did not answer; worth retrying
├── ClaimError           a ResourceClaim cannot be prepared or unprepared; the kubelet retries
├── SecondLayerError     the rules for the node's links cannot be loaded; the engine's stay
└── SettingsError        a setting is missing or invalid; the agent does not start
"""


class AgentError(Exception):
    """Base of all errors of this package."""


class DaemonError(AgentError):
    """A daemon answered with an error."""

    daemon = "daemon"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{self.daemon}: {code}: {message}")
        self.code = code
        self.message = message


class GpudError(DaemonError):
    """gpud answered with an error."""

    daemon = "gpud"


class HcadError(DaemonError):
    """hcad answered with an error."""

    daemon = "hcad"


class LinkdError(DaemonError):
    """linkd answered with an error."""

    daemon = "linkd"


class DaemonUnreachable(AgentError):
    """There is no connection to a daemon, or it was lost."""


class GpudUnreachable(DaemonUnreachable):
    """There is no connection to gpud, or it was lost."""


class HcadUnreachable(DaemonUnreachable):
    """There is no connection to hcad, or it was lost."""


class LinkdUnreachable(DaemonUnreachable):
    """There is no connection to linkd, or it was lost."""


class PodResourcesError(AgentError):
    """The kubelet's pod resources socket did not answer."""


class RegistrationError(AgentError):
    """The kubelet did not register a resource."""


class KubeletSideLost(AgentError):
    """There is no connection to a process that serves the kubelet, or it was lost."""


class KubeletSideSilent(KubeletSideLost):
    """A process that serves the kubelet accepted a request, and did not answer it."""


class ClusterError(AgentError):
    """The API server refused a request, with an HTTP ``status``, or could not be reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ClaimError(AgentError):
    """A ResourceClaim cannot be prepared or unprepared now."""


class SettingsError(AgentError):
    """A setting is missing or invalid."""


class SecondLayerError(AgentError):
    """A tool or the kernel refused rules for the pods' links."""
