"""The hardware: a context worker, which owns memory and runs launches for one CUDA context."""
