/* State of the process: library loaded, initialised, or forked from an initialised process. */
#ifndef TSR_PROCESS_H
#define TSR_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "driver_types.h"

enum { TSR_LOADED = 0, TSR_READY = 1, TSR_FORKED = 2 };
extern _Atomic uint32_t tsr_process_state;
/* Whether the thread is in a variant for per-thread default streams (_ptsz, _ptds), in which a
 * NULL stream is CU_STREAM_PER_THREAD. */
extern __thread bool tsr_per_thread_default;
extern pthread_mutex_t tsr_module_lock; /* guards all modules and libraries: modules/module.h */

/* Whether the thread runs a host function or callback of the program. */
extern __thread bool tsr_in_host_function;

static inline CUresult tsr_state(void) {
  const uint32_t state = atomic_load_explicit(&tsr_process_state, memory_order_acquire);
  if (__builtin_expect(state != TSR_READY, 0)) return CUDA_ERROR_NOT_INITIALIZED;
  return __builtin_expect(tsr_in_host_function, 0) ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

#endif
