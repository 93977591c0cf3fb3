/* Modules: what one context has loaded. */
#ifndef TSR_MODULE_H
#define TSR_MODULE_H

#include "memory/chunk.h"
#include "modules/image.h"
#include "process.h"

enum { TSR_SPAN_VARIABLE = 2 }; /* a tsr_span's kind beyond TESSERA_CHUNK_KIND_... */

/* Has a context's worker load an image, without the module lock: it may take long. */
CUresult tsr_module_fetch(struct tsr_context *context, const void *image, size_t bytes,
                          const struct tsr_log_buffers *logs, struct tsr_module **out);

/* Publishes what was fetched; under the module lock. The module is gone where that fails. */
CUresult tsr_module_adopt(struct tsr_module *module);

/* Forgets a retired module, in the worker too; under the module lock. */
CUresult tsr_module_drop(struct tsr_module *module);

/* Bytes in a descriptor, or -1. */
int tsr_memory_file(const void *image, size_t bytes);

/* The first lines of a worker's log, for people who gave no buffer. */
void tsr_log_lines(const char *log, size_t bytes);

/* All modules of a context that ends. */
void tsr_modules_drop(struct tsr_context *context);

/* By name. CUDA_ERROR_NOT_FOUND: the module has none; CUDA_ERROR_NOT_SUPPORTED: it has one that
 * cannot be used yet, and the log says why. Under the module lock. */
CUresult tsr_module_function(const struct tsr_module *module, const char *name,
                             struct tsr_function **function);
CUresult tsr_module_variable(const struct tsr_module *module, const char *name,
                             CUdeviceptr *address, size_t *bytes);

/* The module variable that holds an address, as a span without alias. */
bool tsr_variable_find(uint64_t address, struct tsr_span *span);

#endif
