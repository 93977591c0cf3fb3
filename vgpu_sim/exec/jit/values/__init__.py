"""SSA values as LLVM values: how each is held, the launch's own, and tests on all lanes of one."""
