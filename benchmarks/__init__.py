"""Speed against native code on the same cores: ``python -m benchmarks`` (docs/benchmarks.md)."""
