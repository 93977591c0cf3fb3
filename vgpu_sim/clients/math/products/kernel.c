#include "kernel.h"

#include <stddef.h>

#include "log.h"

extern int cuLibraryLoadData(void **library, const void *code, void *options, void **values,
                             unsigned int count, void *library_options, void **library_values,
                             unsigned int library_count);
extern int cuLibraryGetKernel(void **kernel, void *library, const char *name);

void *tsr_kernel_load(const char *text, const char *name) {
  void *library, *kernel = NULL;
  int code = cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0);
  if (code == 0) code = cuLibraryGetKernel(&kernel, library, name);
  if (code != 0) tsr_log("cuBLAS: the kernel %s could not be loaded: error %d", name, code);
  return code == 0 ? kernel : NULL;
}
