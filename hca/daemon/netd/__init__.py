"""tessera-netd: opens sockets in the network namespaces of pods, and nothing else."""
