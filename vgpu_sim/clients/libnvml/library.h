/* Initialisation state, which every function checks first. */
#ifndef TSR_LIBRARY_H
#define TSR_LIBRARY_H

#include <stdatomic.h>

#include "nvml_types.h"

extern _Atomic unsigned tsr_users; /* calls of nvmlInit without a matching nvmlShutdown */

static inline nvmlReturn_t tsr_ready(void) {
  return atomic_load_explicit(&tsr_users, memory_order_acquire) ? NVML_SUCCESS
                                                                : NVML_ERROR_UNINITIALIZED;
}

#endif
