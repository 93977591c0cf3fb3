"""``tessera-exporter``: gpud's telemetry for Prometheus, by the names of NVIDIA's dcgm-exporter."""
