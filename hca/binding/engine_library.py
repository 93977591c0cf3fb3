"""Load the engine's library, and declare the signatures of its functions (``tessera_hca.h``)."""

import ctypes
from pathlib import Path

from vgpu_sim.config import LIBRARIES_DIR

LIBRARY_PATH = LIBRARIES_DIR / "libtessera_hca.so"

_P, _I, _U32, _U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64
_SIGNATURES = {
    "hca_new": (_P, []),
    "hca_free": (None, [_P]),
    "hca_client_new": (_P, [_P, _I, _I, _I, ctypes.c_char_p]),
    "hca_client_end": (None, [_P, _P]),
    "hca_client_free": (None, [_P, _P]),
    "hca_client_rounds": (_U64, [_P, _P]),
    "hca_cq_new": (_P, [_P, _P, _U32, _I, _U64, _U32, _I]),
    "hca_cq_free": (None, [_P, _P]),
    "hca_segment_new": (_P, [_P, _I, _U64]),
    "hca_segment_end": (None, [_P, _P]),
    "hca_segment_free": (None, [_P, _P]),
    "hca_region_new": (_P, [_P, _P, _U32, _P, _P]),
    "hca_region_free": (None, [_P, _P]),
    "hca_cq_resize": (ctypes.c_bool, [_P, _P, _I, _U64, _U32]),
    "hca_client_set_pkeys": (None, [_P, _P, _P]),
    "hca_srq_new": (_P, [_P, _P, _P, _U32, _I]),
    "hca_srq_set_limit": (None, [_P, _P, _U32]),
    "hca_srq_limit": (_U32, [_P, _P]),
    "hca_srq_free": (None, [_P, _P]),
    "hca_ah_new": (_P, [_P, _P, _U32, _P]),
    "hca_ah_free": (None, [_P, _P]),
    "hca_window_new": (_P, [_P, _P, _U32, _P]),
    "hca_window_free": (None, [_P, _P]),
    "hca_member_new": (_P, [_P, _P, ctypes.c_char_p, ctypes.c_bool]),
    "hca_member_free": (None, [_P, _P]),
    "hca_pair_new": (_P, [_P, ctypes.c_char_p, ctypes.c_char_p]),
    "hca_pair_free": (None, [_P, _P]),
    "hca_wire_join": (_I, [_P, _P, ctypes.c_char_p, _I]),
    "hca_wire_quit": (None, [_P, _P, ctypes.c_char_p]),
    "hca_steer_new": (_P, [_P, _P, _P]),
    "hca_steer_free": (None, [_P, _P]),
    "hca_qp_drains": (ctypes.c_bool, [_P, _P]),
    "hca_qp_new": (_P, [_P, _P, _P, _P, _I, _P, _P, _P]),
    "hca_qp_set": (_I, [_P, _P, _U32, _P, _P]),
    "hca_qp_state": (_U32, [_P, _P]),
    "hca_qp_free": (None, [_P, _P]),
    "hca_flow_new": (_P, [_P]),
    "hca_flow_free": (None, [_P, _P]),
    "hca_flows_read": (None, [_P, _P, _U32, _P]),
    "hca_limit_new": (_P, [_P, _U64, _U64, _U64, _U64]),
    "hca_limit_free": (None, [_P, _P]),
    "hca_flow_limit": (_I, [_P, _P, _P, _U32]),
    "hca_policies_set": (None, [_P, _P, _U32]),
    "hca_qos_classes_set": (_I, [_P, _P, _U32]),
    "hca_wire_new": (_P, [_P, _P]),
    "hca_wire_free": (None, [_P, _P]),
    "hca_wire_counts": (None, [_P, _P, _P]),
    "hca_pending_sources_fd": (_I, [_P]),
    "hca_pending_sources": (_U32, [_P, _P, _U32]),
    "hca_source_new": (_P, [_P, _P, ctypes.c_char_p]),
    "hca_source_take": (None, [_P, _P]),
    "hca_source_free": (None, [_P, _P]),
    "hca_source_unknown": (None, [_P, _P, ctypes.c_char_p]),
    "hca_wire_mads": (_I, [_P, _P, _I]),
    "hca_wire_send_mad": (_I, [_P, _P, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint16]),
    "hca_counters": (None, [_P, _P, _P]),
    "hca_work_read": (None, [_P, ctypes.c_char_p, _P]),
    "hca_work_restart": (None, [_P]),
    "hca_hold": (None, [_P]),
    "hca_release": (None, [_P]),
    "hca_cq_save": (None, [_P, _P, _P]),
    "hca_cq_load": (None, [_P, _P, _P]),
    "hca_qp_save": (None, [_P, _P, _P]),
    "hca_qp_load": (ctypes.c_bool, [_P, _P, _P]),
    "hca_srq_save": (None, [_P, _P, _P]),
    "hca_srq_load": (None, [_P, _P, _P]),
    "hca_window_save": (None, [_P, _P, _P]),
    "hca_window_load": (None, [_P, _P, _P]),
    "hca_watches_memory": (_I, [_P]),
}


def preload() -> None:
    """Load the engine's library now, while the process can still open files. Raises OSError."""
    ctypes.CDLL(str(LIBRARY_PATH))


def load(library: Path) -> ctypes.CDLL:
    """Load the engine's library from a path and declare its functions. Raises OSError."""
    loaded = ctypes.CDLL(str(library), use_errno=True)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
