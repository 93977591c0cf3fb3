/* Programs whose device code was compiled separately (nvcc -rdc=true) and has no linked code for the
 * device: the wrapper of their fat binary names the fat binaries of all objects, whose PTX the driver
 * links when the program loads it. */
#ifndef TSR_PRELINKED_H
#define TSR_PRELINKED_H

#include "modules/module.h"

/* Gather the fat binaries that a wrapper names as one image, for tsr_prelinked_fetch; the caller
 * frees it. `gathered` is NULL if the image is no such wrapper. */
CUresult tsr_prelinked_gather(const void *image, size_t room, const struct tsr_log_buffers *logs,
                              void **gathered, size_t *bytes);

/* As tsr_module_fetch, also for an image that was gathered. */
CUresult tsr_prelinked_fetch(struct tsr_context *context, const void *image, size_t bytes,
                             const struct tsr_log_buffers *logs, struct tsr_module **out);

#endif
