/* The options of nvJitLinkCreate. Those that only concern machine code have no effect. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* A name that ends in "=" takes a value. */
static const char *const without_effect[] = {
    "-time", "-verbose", "-g", "-lineinfo", "-no-cache", "-optimize-unused-variables", "-r",
    "-kernels-used=", "-variables-used=", "-Xptxas=", "-Xptxas", "-Xnvvm=", "-Xnvvm", "-ftz=",
    "-prec-div=", "-prec-sqrt=", "-fma=", "-split-compile=", "-split-compile-extended=",
    "-jump-table-density=", "-device-stack-protector", "-relocatable-device-code=", NULL,
};
static const char *const architectures[] = {
    "75",  "80",   "86",   "87",  "88",   "89",   "90",  "90a",  "100",  "100a", "100f", "101",
    "101a", "101f", "103", "103a", "103f", "110", "110a", "110f", "120", "120a", "120f", "121",
    "121a", "121f", "50",  "52",   "53",   "60",  "61",   "62",   "70",  "72",   NULL,
};

static bool is_ignored(const char *option) {
  for (const char *const *one = without_effect; *one; one++) {
    const size_t length = strlen(*one);
    const bool has_value = (*one)[length - 1] == '=';
    if (strncmp(option, *one, has_value ? length : length + 1) == 0) return true;
  }
  return option[0] == '-' && option[1] == 'O' && option[2] >= '0' && option[2] <= '3' && !option[3];
}

static nvJitLinkResult read_architecture(const char *name) {
  if (strncmp(name, "compute_", 8) == 0) return NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS;
  const size_t digits = strncmp(name, "sm_", 3) == 0 ? strspn(name + 3, "0123456789") : 0;
  if (digits == 0) return NVJITLINK_ERROR_UNRECOGNIZED_OPTION;
  for (const char *const *one = architectures; *one; one++)
    if (strcmp(*one, name + 3) == 0) return NVJITLINK_SUCCESS;
  return NVJITLINK_ERROR_UNSUPPORTED_ARCH;
}

nvJitLinkResult options_read(struct nvJitLink *link, uint32_t count, const char *const *options) {
  bool has_architecture = false, lto = false, ptx = false;
  for (uint32_t i = 0; i < count; i++) {
    const char *option = options[i];
    if (!option) return NVJITLINK_ERROR_NULL_INPUT;
    if (strncmp(option, "-arch=", 6) == 0) {
      const nvJitLinkResult result = read_architecture(option + 6);
      if (result != NVJITLINK_SUCCESS) return result;
      has_architecture = true;
    } else if (strncmp(option, "-maxrregcount=", 14) == 0) {
      char *end;
      const unsigned long value = strtoul(option + 14, &end, 10);
      if (end == option + 14 || *end || value > 255) return NVJITLINK_ERROR_UNRECOGNIZED_OPTION;
      link->max_registers = (unsigned)value;
    } else if (strcmp(option, "-lto") == 0) {
      lto = true;
    } else if (strcmp(option, "-ptx") == 0) {
      ptx = true;
    } else if (!is_ignored(option)) {
      return NVJITLINK_ERROR_UNRECOGNIZED_OPTION;
    }
  }
  if (!has_architecture) return NVJITLINK_ERROR_MISSING_ARCH;
  if (ptx && !lto) return NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS;
  link->wants_ptx = ptx;
  return NVJITLINK_SUCCESS;
}
