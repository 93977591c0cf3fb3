"""C that users' programs load or run: client libraries, ``nvidia-smi``, and their generator."""
