"""Sources of libtessera-rdmav34.so: Tessera's HCA as a provider of the system's libibverbs."""
