"""What the processor and LLVM offer: object code from text, and features found out by trial."""
