#define _GNU_SOURCE
#include "nvml/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "old_symbol.h"

TSR_OLD_SYMBOL(dlopen);
TSR_OLD_SYMBOL(dlsym);

#define CALL(name, parameters, arguments)                                \
  static nvmlReturn_t(*name##_found) parameters;                         \
  nvmlReturn_t nvml_##name parameters {                                  \
    return name##_found ? name##_found arguments : NVML_ERROR_FUNCTION_NOT_FOUND; \
  }
#include "nvml/nvml_calls.def"
#undef CALL

static const char *(*error_string)(nvmlReturn_t);

/* Look up a function. Its address is copied, because C has no conversion from dlsym's result to
   a function pointer. */
static void find(void *library, const char *symbol, void *function) {
  void *address = dlsym(library, symbol);
  memcpy(function, &address, sizeof address);
}

bool smi_nvml_load(void) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
#define CALL(name, parameters, arguments) find(library, "nvml" #name, &name##_found);
#include "nvml/nvml_calls.def"
#undef CALL
  find(library, "nvmlErrorString", &error_string);
  return true;
}

const char *smi_nvml_text(nvmlReturn_t status) {
  const char *text = error_string ? error_string(status) : NULL;
  return text ? text : "Unknown Error";
}
