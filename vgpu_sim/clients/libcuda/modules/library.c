/* cuLibrary...: images that do not belong to a context, and are loaded into each context that
 * uses them. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "modules/function.h"
#include "modules/library.h"
#include "log.h"
#include "base/refuse.h"
#include "modules/managed.h"
#include "modules/module.h"
#include "modules/prelinked.h"
#include "exchange/wait.h"

static struct tsr_library *find_library(CUlibrary handle) {
  return TSR_FIND(tsr_library, TSR_LIBRARY, handle);
}

/* Whether another context has the library's managed variables, which have one address for the
 * host. */
static bool has_managed_elsewhere(const struct tsr_library *library) {
  for (uint32_t i = 0; i < TESSERA_MAX_CONTEXTS; i++)
    if (library->modules[i] && library->modules[i]->managed_count) return true;
  return false;
}

static CUresult adopt(struct tsr_library *library, struct tsr_module *module) {
  if (module->managed_count && has_managed_elsewhere(library)) {
    tsr_module_abandon(module);
    TSR_REFUSE("a library with managed variables in a second context");
  }
  const CUresult result = tsr_module_adopt(module);
  if (result != CUDA_SUCCESS) return result;
  library->modules[module->context->index] = module;
  module->library = library;
  return CUDA_SUCCESS;
}

/* Begin and end a thread's use of a library without the module lock. The library cannot be
 * unloaded before the last such thread has ended its use. */
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;

static void begin_use(struct tsr_library *library) { library->users++; }

static void end_use(struct tsr_library *library) {
  library->users--;
  pthread_cond_broadcast(&settled);
}

/* Load the library into a context, without the module lock, because loading takes long and other
 * threads need the lock. */
static CUresult load_in(struct tsr_library *library, struct tsr_context *context,
                        const struct tsr_log_buffers *logs) {
  const uint32_t index = context->index;
  struct tsr_module *module;
  begin_use(library);
  library->loading[index] = true;
  pthread_mutex_unlock(&tsr_module_lock);
  struct tsr_log_buffers options = *logs;
  options.max_registers = library->max_registers;
  CUresult result =
      tsr_prelinked_fetch(context, library->image, library->image_bytes, &options, &module);
  pthread_mutex_lock(&tsr_module_lock);
  if (result == CUDA_SUCCESS) result = adopt(library, module);
  library->loading[index] = false;
  end_use(library);
  return result;
}

/* Find the library's module in a context, or load it. The caller holds the module lock, which
 * may be released meanwhile. The library, and so its kernels, still exist when this returns. */
static CUresult module_in(struct tsr_library *library, struct tsr_context *context,
                          const struct tsr_log_buffers *logs, struct tsr_module **out) {
  const uint32_t index = context->index;
  begin_use(library);
  while (library->loading[index]) pthread_cond_wait(&settled, &tsr_module_lock);
  end_use(library);
  if (!library->modules[index]) {
    const CUresult result = load_in(library, context, logs);
    if (result != CUDA_SUCCESS) return result;
  }
  *out = library->modules[index];
  return CUDA_SUCCESS;
}

/* Find the library, after waiting until no thread uses it without the module lock; NULL: it does
 * not exist any more. */
static struct tsr_library *find_unused(CUlibrary handle) {
  struct tsr_library *library;
  while ((library = find_library(handle)) && library->users)
    pthread_cond_wait(&settled, &tsr_module_lock);
  return library;
}

/* Find a module in which to look up names: the current context's, else any. */
static CUresult some_module(struct tsr_library *library, struct tsr_module **out) {
  CUresult why;
  struct tsr_context *context = tsr_context_current(&why);
  const struct tsr_log_buffers no_logs = {0};
  if (context) return module_in(library, context, &no_logs, out);
  for (uint32_t i = 0; i < TESSERA_MAX_CONTEXTS; i++)
    if ((*out = library->modules[i])) return CUDA_SUCCESS;
  return why;
}

static struct tsr_library *new_library(const void *image, size_t bytes) {
  struct tsr_library *library = tsr_object_new(TSR_LIBRARY);
  if (!library) return NULL;
  library->image = malloc(bytes);
  if (!library->image) {
    tsr_object_free(TSR_LIBRARY, library);
    return NULL;
  }
  memcpy(library->image, image, bytes);
  library->image_bytes = bytes;
  return library;
}

static void free_library(struct tsr_library *library) {
  free(library->image);
  tsr_object_free(TSR_LIBRARY, library);
}

static CUresult load(CUlibrary *library, const void *code, size_t room, CUjit_option *jitOptions,
                     void **jitOptionsValues, unsigned int numJitOptions,
                     const CUlibraryOption *libraryOptions, unsigned int numLibraryOptions) {
  if (!library || !code || (numJitOptions && (!jitOptions || !jitOptionsValues)) ||
      (numLibraryOptions && !libraryOptions))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < numLibraryOptions; i++)
    if (libraryOptions[i] != CU_LIBRARY_BINARY_IS_PRESERVED)
      TSR_REFUSE("cuLibraryLoadData with a host function table");
  struct tsr_log_buffers logs;
  tsr_log_buffers_read(&logs, numJitOptions, jitOptions, jitOptionsValues);
  size_t bytes;
  void *gathered;
  CUresult result = tsr_prelinked_gather(code, room, &logs, &gathered, &bytes);
  if (gathered) code = gathered;
  if (result == CUDA_SUCCESS && !gathered) result = tsr_image_check(&code, room, &bytes, &logs);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_library *created = new_library(code, bytes);
  free(gathered);
  if (!created) return CUDA_ERROR_OUT_OF_MEMORY;
  created->max_registers = logs.max_registers;
  /* If there is a current context, load the library now, so that the program gets its errors. */
  CUresult why;
  struct tsr_context *context = tsr_context_current(&why);
  /* without the lock: loading takes long, and no other thread knows the library yet */
  struct tsr_module *module;
  if (context)
    result = tsr_prelinked_fetch(context, created->image, bytes, &logs, &module);
  pthread_mutex_lock(&tsr_module_lock);
  if (context && result == CUDA_SUCCESS) result = adopt(created, module);
  if (result == CUDA_SUCCESS)
    *library = (CUlibrary)(uintptr_t)tsr_object_publish(TSR_LIBRARY, created);
  pthread_mutex_unlock(&tsr_module_lock);
  if (result != CUDA_SUCCESS) free_library(created);
  return result;
}

CUresult tsr_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions) {
  (void)libraryOptionValues; /* even an image that the caller preserves may be copied */
  return load(library, code, TSR_IMAGE_IN_MEMORY, jitOptions, jitOptionsValues, numJitOptions,
              libraryOptions, numLibraryOptions);
}

CUresult tsr_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
                                   CUjit_option *jitOptions, void **jitOptionsValues,
                                   unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                   void **libraryOptionValues, unsigned int numLibraryOptions) {
  if (!library || !fileName) return CUDA_ERROR_INVALID_VALUE;
  (void)libraryOptionValues;
  size_t bytes;
  char *image = tsr_image_read(fileName, &bytes);
  if (!image) return CUDA_ERROR_FILE_NOT_FOUND;
  const CUresult result = load(library, image, bytes, jitOptions, jitOptionsValues, numJitOptions,
                               libraryOptions, numLibraryOptions);
  free(image);
  return result;
}

static void drop_kernels(struct tsr_library *library) {
  while (library->kernels) {
    struct tsr_kernel *kernel = library->kernels;
    library->kernels = kernel->next;
    tsr_object_retire(TSR_KERNEL, tsr_object_handle(TSR_KERNEL, kernel));
    free(kernel->name);
    kernel->name = NULL;
    tsr_object_free(TSR_KERNEL, kernel);
  }
}

/* Wait for all contexts that have loaded the library. The lock is released meanwhile, because
 * other threads may need it. */
static void finish_work(CUlibrary handle) {
  for (uint32_t i = 0; i < TESSERA_MAX_CONTEXTS; i++) {
    pthread_mutex_lock(&tsr_module_lock);
    const struct tsr_library *library = find_library(handle);
    const struct tsr_module *module = library ? library->modules[i] : NULL;
    struct tsr_context *context = module ? module->context : NULL;
    pthread_mutex_unlock(&tsr_module_lock);
    if (context) tsr_wait_all(context);
  }
}

CUresult tsr_cuLibraryUnload(CUlibrary handle) {
  finish_work(handle);
  pthread_mutex_lock(&tsr_module_lock);
  struct tsr_library *library = find_unused(handle);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (library && tsr_object_retire(TSR_LIBRARY, (uint64_t)(uintptr_t)handle)) {
    result = CUDA_SUCCESS;
    drop_kernels(library);
    for (uint32_t i = 0; i < TESSERA_MAX_CONTEXTS; i++) {
      struct tsr_module *module = library->modules[i];
      if (!module) continue;
      tsr_object_retire(TSR_MODULE, tsr_object_handle(TSR_MODULE, module));
      const CUresult dropped = tsr_module_drop(module);
      if (dropped != CUDA_SUCCESS) result = dropped;
    }
    free_library(library);
  }
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

static struct tsr_kernel *kernel_named(struct tsr_library *library, const char *name) {
  for (struct tsr_kernel *kernel = library->kernels; kernel; kernel = kernel->next)
    if (strcmp(kernel->name, name) == 0) return kernel;
  struct tsr_kernel *kernel = tsr_object_new(TSR_KERNEL);
  if (!kernel) return NULL;
  kernel->name = strdup(name);
  if (!kernel->name) {
    tsr_object_free(TSR_KERNEL, kernel);
    return NULL;
  }
  kernel->library = library;
  kernel->next = library->kernels;
  library->kernels = kernel;
  tsr_object_publish(TSR_KERNEL, kernel);
  return kernel;
}

/* Return the library's kernel for a function of one of its modules; NULL: out of memory. */
static struct tsr_kernel *kernel_of(struct tsr_library *library, const struct tsr_function *function) {
  struct tsr_kernel *kernel = kernel_named(library, function->name);
  if (kernel)
    atomic_store(&kernel->functions[function->context->index],
                 tsr_object_handle(TSR_FUNCTION, function));
  return kernel;
}

static CUresult get_kernel(CUkernel *pKernel, struct tsr_library *library, const char *name) {
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  struct tsr_module *module;
  struct tsr_function *function;
  begin_use(library);
  CUresult result = some_module(library, &module);
  if (result == CUDA_SUCCESS) result = tsr_module_function(module, name, &function);
  end_use(library);
  if (result != CUDA_SUCCESS) return result;
  const struct tsr_kernel *kernel = kernel_of(library, function);
  if (!kernel) return CUDA_ERROR_OUT_OF_MEMORY;
  *pKernel = (CUkernel)(uintptr_t)tsr_object_handle(TSR_KERNEL, kernel);
  return CUDA_SUCCESS;
}

CUresult tsr_library_kernel(CUkernel *pKernel, CUlibrary library, const char *name) {
  pthread_mutex_lock(&tsr_module_lock);
  const CUresult result = get_kernel(pKernel, find_library(library), name);
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

CUresult tsr_kernel_resolve(struct tsr_context *context, struct tsr_kernel *kernel,
                            uint64_t *function_handle) {
  struct tsr_module *module;
  const struct tsr_log_buffers no_logs = {0};
  struct tsr_function *function;
  struct tsr_library *library = kernel->library;
  begin_use(library);
  CUresult result = module_in(library, context, &no_logs, &module);
  if (result == CUDA_SUCCESS) result = tsr_module_function(module, kernel->name, &function);
  end_use(library);
  if (result != CUDA_SUCCESS) return result;
  *function_handle = tsr_object_handle(TSR_FUNCTION, function);
  atomic_store(&kernel->functions[context->index], *function_handle);
  return CUDA_SUCCESS;
}

/* Run `body` with `module` set to the library's module, under the lock. */
#define WITH_MODULE(handle, body)                                      \
  pthread_mutex_lock(&tsr_module_lock);                                \
  struct tsr_library *const found = find_library(handle);              \
  struct tsr_module *module = NULL;                                    \
  CUresult result = found ? some_module(found, &module) : CUDA_ERROR_INVALID_HANDLE; \
  if (result == CUDA_SUCCESS) {                                        \
    body;                                                              \
  }                                                                    \
  pthread_mutex_unlock(&tsr_module_lock);                              \
  return result

CUresult tsr_cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
  TSR_CURRENT(context);
  if (!pMod) return CUDA_ERROR_INVALID_VALUE;
  WITH_MODULE(library, *pMod = (CUmodule)(uintptr_t)tsr_object_handle(TSR_MODULE, module));
}

CUresult tsr_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                const char *name) {
  TSR_CURRENT(context);
  if ((!dptr && !bytes) || !name) return CUDA_ERROR_INVALID_VALUE;
  WITH_MODULE(library, result = tsr_module_variable(module, name, dptr, bytes));
}

/* Look up a managed variable. One that is refused gives the reason, as any other variable does. */
static CUresult find_managed(const struct tsr_module *module, const char *name, CUdeviceptr *address,
                             size_t *bytes) {
  const CUresult found = tsr_managed_variable(module, name, address, bytes);
  if (found != CUDA_ERROR_NOT_FOUND) return found;
  const CUresult why = tsr_module_variable(module, name, NULL, NULL);
  return why == CUDA_SUCCESS ? CUDA_ERROR_NOT_FOUND : why;
}

CUresult tsr_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                 const char *name) {
  TSR_CURRENT(context);
  if ((!dptr && !bytes) || !name) return CUDA_ERROR_INVALID_VALUE;
  WITH_MODULE(library, result = find_managed(module, name, dptr, bytes));
}

/* A unified function has one address for host and devices, which needs
 * UNIFIED_FUNCTION_POINTERS: without it no library has such functions. */
CUresult tsr_cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol) {
  if (!fptr || !symbol) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_module_lock);
  const bool exists = find_library(library) != NULL;
  pthread_mutex_unlock(&tsr_module_lock);
  return exists ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

/* Load all functions of a library's module, whose number or handles a program wants. */
static CUresult load_all(struct tsr_library *library, struct tsr_module *module) {
  begin_use(library);
  const CUresult result = tsr_module_load_all(module);
  end_use(library);
  return result;
}

static CUresult enumerate(CUkernel *kernels, unsigned room, struct tsr_library *library,
                          struct tsr_module *module) {
  CUresult result = load_all(library, module);
  if (result != CUDA_SUCCESS) return result;
  const uint32_t usable = tsr_module_usable(module, NULL, 0);
  const uint32_t count = usable < room ? usable : room;
  struct tsr_function **found = malloc((count ? count : 1) * sizeof *found);
  if (!found) return CUDA_ERROR_OUT_OF_MEMORY;
  tsr_module_usable(module, found, count);
  for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
    const struct tsr_kernel *kernel = kernel_of(library, found[i]);
    if (kernel)
      kernels[i] = (CUkernel)(uintptr_t)tsr_object_handle(TSR_KERNEL, kernel);
    else
      result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  free(found);
  return result;
}

CUresult tsr_library_enumerate(CUkernel *kernels, unsigned int numKernels, CUlibrary lib) {
  WITH_MODULE(lib, result = enumerate(kernels, numKernels, found, module));
}

CUresult tsr_library_count(unsigned int *count, CUlibrary lib) {
  WITH_MODULE(lib, {
    result = load_all(found, module);
    if (result == CUDA_SUCCESS) *count = tsr_module_usable(module, NULL, 0);
  });
}
