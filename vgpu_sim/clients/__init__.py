"""C libraries and programs for users: driver libraries, ``nvidia-smi``, and their generator."""
