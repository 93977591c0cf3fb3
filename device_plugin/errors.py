"""Every error of the node agent.

AgentError
├── GpudError            gpud refused a request; ``code`` says how (docs/gpud-admin.md)
├── GpudUnreachable      nobody answers on gpud's socket; worth retrying
├── PodResourcesError    the kubelet did not answer; worth retrying
├── KubeletSideLost      the process that serves the kubelet is away; worth retrying
├── ClusterError         the API server refused or did not answer; worth retrying
├── SecondLayerError     the node's links cannot be given rules; the engine's stay
└── SettingsError        the environment lacks something; the agent does not start
"""


class AgentError(Exception):
    """Base of all errors of this package."""


class GpudError(AgentError):
    """gpud answered with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"gpud: {code}: {message}")
        self.code = code
        self.message = message


class GpudUnreachable(AgentError):
    """No connection to gpud, or it was lost."""


class PodResourcesError(AgentError):
    """The kubelet's pod resources socket did not give an answer."""


class KubeletSideLost(AgentError):
    """The process that serves the kubelet did not answer."""


class ClusterError(AgentError):
    """The API server refused a request, with an HTTP ``status``, or could not be reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class SettingsError(AgentError):
    """A setting is missing or wrong."""


class SecondLayerError(AgentError):
    """A tool or the kernel refused rules for the pods' links."""
