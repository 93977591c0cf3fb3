"""Sources of ``libcudart.so.12`` and ``libcudart.so.13``: the CUDA runtime API."""
