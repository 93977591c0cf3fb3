"""``libibverbs.so.1``: the verbs API of a program that has a function of the virtual HCA."""
