/* The kernels and variables that programs register by host address. */
#ifndef TSR_REGISTRY_H
#define TSR_REGISTRY_H

#include <stdbool.h>

#include "driver.h"

/* A fat binary that a program has registered. It is loaded when one of its kernels or variables is
 * first used. */
struct tsr_image;

/* A registered kernel. */
struct tsr_kernel;

/* A registered variable of the device. */
struct tsr_variable;

struct tsr_image *tsr_image_add(const void *code);
void tsr_image_remove(struct tsr_image *image);
void tsr_kernel_add(struct tsr_image *image, const void *host, const char *name);
void tsr_variable_add(struct tsr_image *image, const void *host, const char *name, size_t bytes,
                      bool managed);

/* The driver's kernel for what a program passes as kernel: the host address of a registered kernel,
 * or a cudaKernel_t. */
cudaError_t tsr_kernel_of(const void *host, cudaKernel_t *kernel);

/* The same kernel as a function of the current context. */
cudaError_t tsr_function_of(const void *host, cudaFunction_t *function);

/* The opposite: what a program passes for a function of the current context, or else for a kernel. A
 * function that is not of a registered kernel is returned as it is. */
void *tsr_host_of(cudaFunction_t function, cudaKernel_t kernel);

/* The address and size of a registered variable in the current context; either may be NULL. */
cudaError_t tsr_symbol(const void *host, void **address, size_t *bytes);

/* Store the addresses of the image's managed variables where the program's code reads them: in the
 * pointers that it has registered. */
cudaError_t tsr_image_store_managed(struct tsr_image *image);

#endif
