"""Structures of the worker's native runtime (``vgpu_sim/worker/runtime/tessera_worker.h``)."""

import ctypes
from ctypes import c_char, c_int32, c_uint32, c_uint64, c_void_p

from vgpu_sim.hal.compute import abi, ports
from vgpu_sim.worker.pipes import PIPES


class Call(ctypes.Structure):
    """``tessera_worker_call``: a request of the C scheduler to Python, and Python's reply."""

    _fields_ = (
        ("kernel", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("parameters", c_void_p),
        ("parameter_bytes", c_uint64),
        ("entry", c_uint64),
        ("groups", c_uint32),
        ("stack_bytes", c_uint32),
        ("counts", c_uint32),
        ("fault_kind", c_uint32),
        ("error", c_uint32),
        ("ptx_line", c_uint32),
        ("shared_bytes", c_uint32),
        ("polls", c_uint32),
        ("thread_stack_bytes", c_uint64),
        ("provisional", c_uint32),
        ("multiprocessors", c_uint32),
        ("cluster", c_uint32),
        ("depth", c_uint32),
        ("address", c_uint64),
        ("faulting_block", c_uint64),
        ("message", c_char * abi.MESSAGE_BYTES),
        ("detail", abi.FaultDetail),
    )

    def set_entry(self, native_entry: ports.NativeEntry) -> None:
        """Reply to the call with native code."""
        self.entry, self.groups = native_entry.address, native_entry.groups
        self.stack_bytes, self.counts = native_entry.stack_bytes, native_entry.counts
        self.polls, self.provisional = native_entry.polls, native_entry.provisional


Callback = ctypes.CFUNCTYPE(None, ctypes.POINTER(Call))


Observer = ctypes.CFUNCTYPE(c_uint64, c_uint32, ctypes.POINTER(abi.Slot), c_void_p, c_uint32)


class Config(ctypes.Structure):
    _fields_ = (
        ("aperture_base", c_uint64),
        ("threads", c_uint32),
        ("max_threads_per_block", c_uint32),
        ("multiprocessors", c_uint32),
        ("runners", c_uint32),
        ("client_socket", c_int32),
        ("fault_event", c_int32),
        ("callback", Callback),
        ("sm_threads", c_uint32),
        ("sm_blocks", c_uint32),
        ("sm_shared_bytes", c_uint32),
        ("sm_reserved_bytes", c_uint32),
        ("observer", Observer),
    )


class KernelRecord(ctypes.Structure):
    _fields_ = (
        ("segment_base", c_uint64),
        ("parameter_bytes", c_uint32),
        ("max_threads", c_uint32),
        ("required_block", c_uint32 * 3),
        ("required_cluster", c_uint32 * 3),
        ("interpreted", c_uint32),
        ("shared_bytes", c_uint32),
        ("local_bytes", c_uint32),
        ("has_stack", c_uint64),
        ("parameter_image", c_uint64),
        ("launch_buffer", c_uint64),
        ("registers", c_uint32),
        ("tensor_memory", c_uint32),
        ("pipes", c_uint32 * len(PIPES)),
        ("name", c_char * 128),
    )


class FaultOrigin(ctypes.Structure):
    _fields_ = (
        ("parameters", c_void_p),
        ("word", c_uint64),
        ("shared_bytes", c_uint64),
        ("shared", c_uint64),
        ("local", c_uint64),
        ("launch", ctypes.POINTER(abi.LaunchContext)),
    )


class StatsRecord(ctypes.Structure):
    _fields_ = (
        ("launches", c_uint64),
        ("first_launch_ns", c_uint64),
        ("last_launch_ns", c_uint64),
        ("busy_ns", c_uint64),
        ("running_kernel", c_uint64),
        ("running_since_ns", c_uint64),
        ("running_name", c_char * 128),
        ("computed_ns", c_uint64),
        ("blocks", c_uint64),
        ("threads", c_uint64),
        ("sm_active_ns", c_uint64),
        ("sm_occupancy_ns", c_uint64),
        ("pipe_ns", c_uint64 * len(PIPES)),
        ("host_to_device_bytes", c_uint64),
        ("device_to_host_bytes", c_uint64),
        ("device_to_device_bytes", c_uint64),
        ("set_bytes", c_uint64),
        ("copy_ns", c_uint64),
    )


class KernelUsage(ctypes.Structure):
    _fields_ = (("launches", c_uint64), ("busy_ns", c_uint64))
