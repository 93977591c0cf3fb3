"""LLVM text of one function: names, blocks, value numbering, masks and loops over lanes."""
