"""``tessera-exporter``: gpud's telemetry under the names of NVIDIA's dcgm-exporter."""
