/* The functions that programs call. All call NVIDIA's NVRTC; where it has machine code, which
   Tessera cannot run, the program receives the PTX from which that code was made (ADR 141). */
#define _GNU_SOURCE
#include <stdbool.h>

#include "library.h"
#include "types.h"

#define EXPORT __attribute__((visibility("default")))

#define FUNCTION(name, parameters, arguments)                               \
  EXPORT nvrtcResult nvrtc##name parameters;                                \
  nvrtcResult nvrtc##name parameters {                                      \
    nvrtcResult(*const function) parameters = library_symbol("nvrtc" #name); \
    return function ? function arguments : NVRTC_ERROR_INTERNAL_ERROR;      \
  }
#include "functions.def"
#undef FUNCTION

EXPORT const char *nvrtcGetErrorString(nvrtcResult result);
EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram prog, size_t *cubinSizeRet);
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram prog, char *cubin);

/* Programs also ask for the text of the result that says that there is no NVRTC. */
const char *nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
#define RESULT(value, name) \
  case name:                \
    return #name;
#include "results.def"
#undef RESULT
    default:
      return "NVRTC_ERROR unknown";
  }
}

static nvrtcResult call_size(const char *name, nvrtcProgram prog, size_t *size) {
  nvrtcResult (*const function)(nvrtcProgram, size_t *) = library_symbol(name);
  return function ? function(prog, size) : NVRTC_ERROR_INTERNAL_ERROR;
}

/* Return whether a program has machine code and the PTX from which it was made. It has no machine
   code, and the size is 0, if it was compiled for a virtual architecture or to LTO-IR. */
static bool has_both(nvrtcProgram prog, size_t *ptx_bytes) {
  size_t machine_code = 0;
  if (call_size("nvrtcGetCUBINSize", prog, &machine_code) != NVRTC_SUCCESS) return false;
  if (machine_code == 0) return false;
  /* The size includes the NUL. */
  return call_size("nvrtcGetPTXSize", prog, ptx_bytes) == NVRTC_SUCCESS && *ptx_bytes > 1;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram prog, size_t *cubinSizeRet) {
  size_t bytes = 0;
  if (!cubinSizeRet || !has_both(prog, &bytes))
    return call_size("nvrtcGetCUBINSize", prog, cubinSizeRet);
  *cubinSizeRet = bytes;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram prog, char *cubin) {
  size_t bytes = 0;
  const char *name = has_both(prog, &bytes) ? "nvrtcGetPTX" : "nvrtcGetCUBIN";
  nvrtcResult (*const function)(nvrtcProgram, char *) = library_symbol(name);
  return function ? function(prog, cubin) : NVRTC_ERROR_INTERNAL_ERROR;
}
