"""An API server's proxy that answers for the exporters of nodes."""

from gpu_operator import errors
from gpu_operator.kube.port import Chosen, Document


class FakeProxy:
    """Answers for an exporter, and counts requests."""

    def __init__(self, body: bytes | errors.KubeError, pods: list[Document]) -> None:
        self.body = body
        self.pods = pods
        self.reads: list[tuple[str, str, int, str, int]] = []

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        assert (kind, token) == ("Pod", "")
        assert "exporter" in chosen.labels
        return {"items": self.pods}

    async def read_port(
        self, namespace: str, pod: str, port: int, path: str, most_bytes: int
    ) -> bytes:
        self.reads.append((namespace, pod, port, path, most_bytes))
        if isinstance(self.body, errors.KubeError):
            raise self.body
        return self.body


def exporter_of(node: str, namespace: str = "tessera-system") -> Document:
    labels = {"app.kubernetes.io/component": "exporter"}
    metadata = {"name": "exporter-x", "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}}
