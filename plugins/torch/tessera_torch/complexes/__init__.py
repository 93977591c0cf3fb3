"""Complex numbers as pairs of real ones: Triton and Inductor have no complex types."""
