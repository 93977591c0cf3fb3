"""The build of all C code: libraries in ``lib``, generated sources in ``generated``."""
