/* Modules: what one context has loaded. */
#ifndef TSR_MODULE_H
#define TSR_MODULE_H

#include "chunk.h"
#include "image.h"

extern pthread_mutex_t tsr_module_lock;

enum { TSR_SPAN_VARIABLE = 2 }; /* a tsr_span's kind beyond TESSERA_CHUNK_KIND_... */

/* Loads an image into a context; under the module lock. The module is published. */
CUresult tsr_module_load(struct tsr_context *context, const void *image, size_t bytes,
                         const struct tsr_log_buffers *logs, struct tsr_module **out);

/* Forgets a retired module, in the worker too; under the module lock. */
CUresult tsr_module_drop(struct tsr_module *module);

/* All modules of a context that ends. */
void tsr_modules_drop(struct tsr_context *context);

/* By name; NULL where the module has none. Under the module lock. */
struct tsr_function *tsr_module_function(const struct tsr_module *module, const char *name);
CUresult tsr_module_variable(const struct tsr_module *module, const char *name,
                             CUdeviceptr *address, size_t *bytes);

/* The module variable that holds an address, as a span without alias. */
bool tsr_variable_find(uint64_t address, struct tsr_span *span);

#endif
