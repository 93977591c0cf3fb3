/* Modules that a context has loaded. */
#ifndef TSR_MODULE_H
#define TSR_MODULE_H

#include "memory/chunk.h"
#include "modules/image.h"
#include "process.h"

enum { TSR_SPAN_VARIABLE = 2 }; /* kind of a tsr_span, in addition to TESSERA_CHUNK_KIND_... */

/* Have a context's worker load an image. Called without the module lock, because it may take
 * long. */
CUresult tsr_module_fetch(struct tsr_context *context, const void *image, size_t bytes,
                          const struct tsr_log_buffers *logs, struct tsr_module **out);

/* Unload and free a module that was not published, so that nothing of it has run. */
void tsr_module_abandon(struct tsr_module *module);

/* Publish a loaded module; under the module lock. On failure the module is freed. */
CUresult tsr_module_adopt(struct tsr_module *module);

/* Remove a retired module, also from the worker; under the module lock. */
CUresult tsr_module_drop(struct tsr_module *module);

/* Create a descriptor with these bytes, or return -1. */
int tsr_memory_file(const void *image, size_t bytes);

/* Log the first lines of a worker's log, for users who have passed no buffer. */
void tsr_log_lines(const char *log, size_t bytes);

/* Remove all modules of a context that ends. */
void tsr_modules_drop(struct tsr_context *context);

/* Look up a name. CUDA_ERROR_NOT_FOUND: the module does not have it; CUDA_ERROR_NOT_SUPPORTED:
 * the module has it, but it cannot be used yet, and the log contains the reason. Under the
 * module lock. A function of a lazy module is loaded; the lock may be released meanwhile. If the
 * module does not exist afterwards, the result is CUDA_ERROR_INVALID_HANDLE. */
CUresult tsr_module_function(struct tsr_module *module, const char *name,
                             struct tsr_function **function);

/* Load all functions of a lazy module that are supported; otherwise as tsr_module_function. */
CUresult tsr_module_load_all(struct tsr_module *module);

/* Return the number of loaded functions, and the first `room` of them. Under the module lock. */
uint32_t tsr_module_usable(const struct tsr_module *module, struct tsr_function **functions,
                           uint32_t room);

/* Look up a variable of the program. */
CUresult tsr_module_variable(const struct tsr_module *module, const char *name,
                             CUdeviceptr *address, size_t *bytes);

/* Find the module variable that contains an address, as a span without an alias. */
bool tsr_variable_find(uint64_t address, struct tsr_span *span);

#endif
