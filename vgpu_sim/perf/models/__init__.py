"""Whole models: a graph of operators for each layer, and the time of serving a batch."""

from vgpu_sim.perf.models.architectures import ARCHITECTURES, Architecture, architecture_named
from vgpu_sim.perf.models.diffusion import Drawing
from vgpu_sim.perf.models.layout import Layout
from vgpu_sim.perf.models.serving import Report, Serving, predict_serving

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Drawing",
    "Layout",
    "Report",
    "Serving",
    "architecture_named",
    "predict_serving",
]
