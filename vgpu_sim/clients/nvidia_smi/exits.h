/* Exit statuses, as nvidia-smi's manual lists them under RETURN VALUE. */
#pragma once

#include "nvml/nvml_types.h"

enum {
  SMI_EXIT_SUCCESS = 0,
  SMI_EXIT_INVALID = 2,       /* an invalid argument or flag */
  SMI_EXIT_UNSUPPORTED = 3,   /* the device does not support the operation */
  SMI_EXIT_PERMISSION = 4,
  SMI_EXIT_NOT_FOUND = 6,
  SMI_EXIT_NO_DRIVER = 9,
  SMI_EXIT_NO_LIBRARY = 12,
  SMI_EXIT_OTHER = 255,
};

/* Convert an NVML status to the exit status: the same number, if it fits. */
static inline int smi_exit_of(nvmlReturn_t status) {
  return status >= 0 && status < SMI_EXIT_OTHER ? status : SMI_EXIT_OTHER;
}
