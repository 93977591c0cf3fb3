#define _GNU_SOURCE
#include "blas_handle.h"

#include <dlfcn.h>
#include <stddef.h>

#include "old_symbol.h"

TSR_OLD_SYMBOL(dlopen);
TSR_OLD_SYMBOL(dlsym);

typedef int get_stream(void *handle, void **stream);

#define TEXT(number) #number
#define NAME(major) "libcublas.so." TEXT(major)

/* The library stays loaded once its function was found. */
static get_stream *find(void) {
  static get_stream *found;
  get_stream *function = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
  if (function) return function;
  void *library = dlopen(NAME(TSR_MAJOR), RTLD_LAZY | RTLD_NOLOAD);
  if (library) function = (get_stream *)dlsym(library, "cublasGetStream_v2");
  __atomic_store_n(&found, function, __ATOMIC_RELEASE);
  return function;
}

bool tsr_is_blas_handle(void *handle) {
  get_stream *const function = handle ? find() : NULL;
  void *stream = NULL;
  return function && function(handle, &stream) == 0;
}
