/* What LD_PRELOAD names to load Tessera's libraries of one version of CUDA. It has no function of its
 * own: the dynamic linker loads the libraries that it needs, and then no others of their names. */
typedef int tsr_nothing;
