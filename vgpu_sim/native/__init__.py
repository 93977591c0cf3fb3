"""The build of all C: into ``lib``, with what is generated in ``generated``."""
