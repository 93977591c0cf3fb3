/* Kernels of cuBLAS's libraries, which are PTX that the driver compiles. */
#ifndef TSR_KERNEL_H
#define TSR_KERNEL_H

/* Load the kernel of this name, which belongs to no context; NULL, with a line on stderr, if the
 * driver refuses it. */
void *tsr_kernel_load(const char *text, const char *name);

#endif
