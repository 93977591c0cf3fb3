"""A pytest plugin: the fixture ``tessera_gpu`` gives a test simulated GPUs."""
