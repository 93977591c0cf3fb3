"""``tessera run --hca``: membership of a fabric, and the files by which tools find an HCA."""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from hca.binding.wire import NoWire, WireInterface, find
from rdma.reading import quantity
from rdma.reading.fields import LABEL_KEY, LABEL_VALUE
from vgpu_sim import config
from vgpu_sim.cli.clients import fabric
from vgpu_sim.cli.clients.fabric import NAME, FabricMember
from vgpu_sim.cli.clients.fabric_policy import Document
from vgpu_sim.cli.run import namespaces, provider
from vgpu_sim.cli.run.namespaces import MS_BIND_REC, MS_REMOUNT_READ_ONLY
from vgpu_sim.system import calls

CLASSES: Final = Path("/sys/class")
CLASS: Final = "infiniband"
_EXIT_FAILED: Final = 125


def check_name(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Check that a fabric's name can be the name of a folder. Raises click.BadParameter."""
    if value is not None and not NAME.fullmatch(value):
        raise click.BadParameter(
            f"{value!r}: a fabric name has 1 to 32 letters, digits and ._- and begins with a letter"
        )
    return value


def parse_labels(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> dict[str, str]:
    """Parse KEY=VALUE,... into labels of a pod. Raises click.BadParameter."""
    labels = {}
    for pair in value.split(",") if value else ():
        key, equals, text = pair.partition("=")
        if not equals or not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(text):
            raise click.BadParameter(f"{pair!r}: expected a label KEY=VALUE, as in Kubernetes")
        labels[key] = text
    return labels


def read_rate(_context: click.Context, _option: click.Parameter, value: str | None) -> int:
    """Parse a Kubernetes quantity into bytes per second; 0 if absent. Raises BadParameter."""
    try:
        return quantity.parse(value) if value is not None else 0
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def find_wire(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> WireInterface | None:
    """Return the interface with the given name or address. Raises click.BadParameter."""
    if value is None:
        return None
    try:
        return find(value)
    except NoWire as err:
        raise click.BadParameter(str(err)) from None


def fabric_name(requested_name: str | None) -> str:
    """Return the given fabric name, or a new one that no other run joins."""
    return requested_name or f"run-{secrets.token_hex(8)}"


def direct_socket(name: str) -> Path:
    """Return the path at which gpud finds the hcad of a fabric. Raises OSError."""
    return fabric.direct_socket(config.private_dir_parents(), name)


def member(
    name: str,
    token_hex: str,
    labels: Mapping[str, str],
    policies: Sequence[Document],
    wire: WireInterface | None = None,
    gso: bool = False,
    bytes_per_second: int = 0,
) -> FabricMember:
    """Return a run's membership in the fabric ``name``; the caller has yet to enter it."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    parents = config.private_dir_parents()
    return FabricMember(
        parents,
        name,
        token_hex,
        memory_bytes=half,
        labels=labels,
        policies=policies,
        wire=wire,
        segment=gso,
        bytes_per_second=bytes_per_second,
    )


def check_options(
    hca: bool, wire: object, of_wire: object, policies: object, named: object, system_verbs: bool
) -> None:
    """Check that options which require another option are given only with that option. Raises
    click.UsageError.
    """
    for dependent_option, required_option, message in (
        (named, hca, "--fabric needs --hca"),
        (policies, hca, "--rdma-labels and --rdma-policy need --hca"),
        (wire, hca, "--wire needs --hca"),
        (of_wire, wire, "--wire-gso and --wire-rate need --wire"),
        (system_verbs, hca, "--system-verbs needs --hca"),
    ):
        if dependent_option and not required_option:
            raise click.UsageError(message)


def verbs_dir(system: bool) -> Path:
    """Return the directory of the verbs library for the run's programs.

    This is the directory of Tessera's libibverbs, or, with ``system``, the directory of the
    provider that the system's libibverbs loads.

    Raises:
        FabricFailed: the system's libibverbs cannot be used.
    """
    if system:
        provider.check()
    return config.PROVIDER_PATH if system else config.RDMA_LIBRARIES_DIR


def sysfs_mounter(joined: FabricMember, system_verbs: bool = False) -> Callable[[], None]:
    """Return a function that mounts a member's device into the new process's /sys/class/infiniband.

    If the mount is not permitted, the function prints a message on stderr, and the program runs
    without sysfs entries. Verbs then work, but tools that look for devices in sysfs find none. With
    ``system_verbs``, the program does not run without the entries, because the system's libibverbs
    needs them.
    """
    sysfs = joined.sysfs

    def show() -> None:
        if namespaces.is_possible(
            lambda: _mount(sysfs, system_verbs), lambda err: f"no {CLASSES / CLASS}: {err}"
        ):
            _mount(sysfs, system_verbs)
        elif system_verbs:
            os._exit(_EXIT_FAILED)

    return show


def _mount(sysfs: Path, system_verbs: bool) -> None:
    """Mount a folder of all classes, including Tessera's, over /sys/class, for this process alone.

    sysfs does not allow new entries, so /sys/class becomes another file system with the old
    folders.

    Raises:
        OSError: a step is not permitted; /sys/class is then unchanged.
    """
    classes = [entry for entry in CLASSES.iterdir() if entry.name != CLASS]
    namespaces.enter()
    scratch = sysfs.with_name("classes")
    scratch.mkdir(exist_ok=True)
    calls.mount("none", str(scratch), "tmpfs", 0, "size=64k,mode=0755")
    for entry in classes:
        (scratch / entry.name).mkdir()
        calls.mount(str(entry), str(scratch / entry.name), "", MS_BIND_REC)
    (scratch / CLASS).mkdir()
    calls.mount(str(sysfs), str(scratch / CLASS), "", MS_BIND_REC)
    if system_verbs:
        provider.write_class_entry(
            scratch, next(adapter_dir.name for adapter_dir in sysfs.iterdir())
        )
    calls.mount("none", str(scratch), "", MS_REMOUNT_READ_ONLY)
    calls.mount(str(scratch), str(CLASSES), "", MS_BIND_REC)
    calls.unmount_detached(str(scratch))
    if system_verbs:
        provider.mount_device(sysfs.with_name("devices"))
