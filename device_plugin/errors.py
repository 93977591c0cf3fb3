"""Every error of the node agent.

AgentError
├── DaemonError          a daemon refused a request; ``code`` says how (docs/gpud-admin.md)
│   ├── GpudError
│   ├── HcadError
│   └── LinkdError
├── DaemonUnreachable    nobody answers on its socket; worth retrying
│   ├── GpudUnreachable
│   ├── HcadUnreachable
│   └── LinkdUnreachable
├── PodResourcesError    the kubelet did not answer; worth retrying
├── KubeletSideLost      the process that serves the kubelet is away; worth retrying
├── ClusterError         the API server refused or did not answer; worth retrying
├── ClaimError           a ResourceClaim cannot be prepared or unprepared; the kubelet asks again
├── SecondLayerError     the node's links cannot be given rules; the engine's stay
└── SettingsError        the environment lacks something; the agent does not start
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
    """No connection to a daemon, or it was lost."""


class GpudUnreachable(DaemonUnreachable):
    """No connection to gpud, or it was lost."""


class HcadUnreachable(DaemonUnreachable):
    """No connection to hcad, or it was lost."""


class LinkdUnreachable(DaemonUnreachable):
    """No connection to linkd, or it was lost."""


class PodResourcesError(AgentError):
    """The kubelet's pod resources socket did not give an answer."""


class KubeletSideLost(AgentError):
    """The process that serves the kubelet did not answer."""


class ClusterError(AgentError):
    """The API server refused a request, with an HTTP ``status``, or could not be reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ClaimError(AgentError):
    """What a ResourceClaim was allocated cannot be had now, or not be given back."""


class SettingsError(AgentError):
    """A setting is missing or wrong."""


class SecondLayerError(AgentError):
    """A tool or the kernel refused rules for the pods' links."""
