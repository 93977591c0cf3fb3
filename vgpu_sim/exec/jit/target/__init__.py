"""The CPU and LLVM: object code from text, and CPU features that are tested by execution."""
