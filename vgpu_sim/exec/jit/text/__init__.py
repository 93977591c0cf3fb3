"""LLVM text of one function: names, blocks, numbered values, masks and loops over lanes."""
