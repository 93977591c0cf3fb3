"""The place and the text of a kernel's fault."""
