"""Sources of libtessera-rdmav34.so: our HCA as a provider of the system's libibverbs."""
