"""The simulated hardware: a worker process owns memory and runs launches for one CUDA context."""
