/* Exit statuses, as nvidia-smi's manual lists them under RETURN VALUE. */
#pragma once

#include "nvml/nvml_types.h"

enum {
  SMI_EXIT_SUCCESS = 0,
  SMI_EXIT_INVALID = 2,       /* an argument or a flag */
  SMI_EXIT_UNSUPPORTED = 3,   /* the device cannot do that */
  SMI_EXIT_PERMISSION = 4,
  SMI_EXIT_NOT_FOUND = 6,
  SMI_EXIT_NO_DRIVER = 9,
  SMI_EXIT_NO_LIBRARY = 12,
  SMI_EXIT_OTHER = 255,
};

/* NVML's statuses are the exit statuses, as far as these have room. */
static inline int smi_exit_of(nvmlReturn_t status) {
  return status >= 0 && status < SMI_EXIT_OTHER ? status : SMI_EXIT_OTHER;
}
