"""Labels of a series, as in dcgm-exporter (its README, "Metrics" and "Kubernetes").

If a Prometheus target has labels with these names, ``pod``, ``namespace`` and ``container`` become
``exported_pod`` and so on.
"""

from typing import Final

from device_plugin.exporter.traffic import PairDenials, PairTraffic, PortTraffic
from vgpu_sim.hal.management.admin import Gpu, Instance

Labels = dict[str, str]
_WHOLE: Final = "whole"  # the profile of a GPU with MIG off


def gpu_labels(gpu: Gpu, hostname: str, driver_version: str) -> Labels:
    """Return the labels of a GPU's series."""
    labels = {
        "gpu": str(gpu.index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id,
        "device": f"nvidia{gpu.index}",
        "modelName": gpu.product,
        "Hostname": hostname,
        "DCGM_FI_DRIVER_VERSION": driver_version,
    }
    whole = next((instance for instance in gpu.instances if instance.profile == _WHOLE), None)
    return labels | (_holder(whole) if whole is not None else {})


def instance_labels(gpu: Gpu, instance: Instance, hostname: str, driver_version: str) -> Labels:
    """Return the labels of the series of an instance: a MIG device, or the whole GPU."""
    labels = gpu_labels(gpu, hostname, driver_version)
    if instance.profile == _WHOLE:
        return labels
    mig = {"GPU_I_PROFILE": instance.profile, "GPU_I_ID": str(instance.gi_id)}
    # otherwise two devices in one GPU instance would have the same series
    if instance.compute_start is not None:
        mig["GPU_CI_ID"] = str(instance.ci_id)
    return labels | mig | _holder(instance)


def port_labels(port: PortTraffic, hca: int | None, hostname: str) -> Labels:
    """Return the labels of the series of an HCA function, with node_exporter's for a port.

    ``hca`` is the number of the function's HCA, or None if it is not known.
    """
    namespace, _, pod = port.pod.partition("/")
    return {
        "device": port.function,
        "port": "1",
        "hca": "" if hca is None else str(hca),
        "Hostname": hostname,
        "namespace": namespace,
        "pod": pod,
    }


def pair_labels(pair: PairTraffic, hostname: str) -> Labels:
    """Return the labels of the series of a verb from one pod to another."""
    return {"Hostname": hostname, "verb": pair.verb} | _ends(pair)


def denial_labels(denials: PairDenials, hostname: str) -> Labels:
    """Return the labels of the series of denials; of many policies, hcad lists the first four."""
    labels = {
        "Hostname": hostname,
        "verb": denials.verb,
        "policy": ", ".join(denials.policies),
        "action": "audited" if denials.audited else "denied",
    }
    return labels | _ends(denials)


def _ends(pair: PairTraffic | PairDenials) -> Labels:
    source_namespace, _, source = pair.source.partition("/")
    destination_namespace, _, destination = pair.destination.partition("/")
    return {
        "source_namespace": source_namespace,
        "source_pod": source,
        "destination_namespace": destination_namespace,
        "destination_pod": destination,
    }


def _holder(instance: Instance) -> Labels:
    """Return the labels of the pod that holds an instance.

    Of several pods only the first by name is returned, so that sums over pods are right.
    """
    holders = sorted(instance.holders, key=lambda one: (one.namespace, one.name, one.container))
    if not holders:
        return {}
    first = holders[0]
    return {"container": first.container, "namespace": first.namespace, "pod": first.name}
