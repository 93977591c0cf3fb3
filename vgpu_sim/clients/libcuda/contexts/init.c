/* Loading of the library, cuInit and fork. */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "config.h"
#include "contexts/context.h"
#include "base/device.h"
#include "base/rivals.h"
#include "log.h"
#include "process.h"
#include "registered/registered.h"

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* Weak, because each libc has only one of them (glibc, musl). */
__attribute__((weak)) extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void),
                                                   void *);
__attribute__((weak)) extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));

/* A child process has none of the parent's contexts, so it cannot use CUDA. Its copies of the
 * sockets are closed; otherwise the workers would outlive the parent. Before cuInit has returned
 * there are no contexts, and the child may call cuInit again, even if a thread of the parent was
 * inside it: that thread does not exist in the child. */
static void after_fork_in_child(void) {
  if (atomic_load(&tsr_process_state) != TSR_READY) {
    init_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    tsr_registered_in_child();
    return;
  }
  atomic_store(&tsr_process_state, TSR_FORKED);
  tsr_contexts_close_sockets();
  tsr_registered_in_child();
}

__attribute__((constructor)) static void watch_forks(void) {
  if (__register_atfork)
    __register_atfork(tsr_registered_before_fork, tsr_registered_in_parent, after_fork_in_child,
                      NULL);
  else if (pthread_atfork)
    pthread_atfork(tsr_registered_before_fork, tsr_registered_in_parent, after_fork_in_child);
}

/* With another libcuda loaded, half of the program might use another driver. */
static int look_at_library(struct dl_phdr_info *library, size_t size, void *state) {
  (void)size;
  const char *slash = strrchr(library->dlpi_name, '/');
  const char *name = slash ? slash + 1 : library->dlpi_name;
  if (strncmp(name, "libcuda.so", 10) != 0) return 0;
  if (tsr_library_contains(library, (uintptr_t)look_at_library)) return 0;
  *(const char **)state = library->dlpi_name;
  return 1;
}

static void warn_of_others(void) {
  static bool looked;
  if (looked) return;
  looked = true;
  const char *other = NULL;
  dl_iterate_phdr(look_at_library, &other);
  if (other) tsr_log("another CUDA driver library is loaded in this process: %s", other);
}

CUresult tsr_cuInit(unsigned int Flags) {
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t state = atomic_load(&tsr_process_state);
  if (state == TSR_READY) return CUDA_SUCCESS;
  if (state == TSR_FORKED) return CUDA_ERROR_NOT_INITIALIZED;
  pthread_mutex_lock(&init_lock);
  CUresult result = CUDA_SUCCESS;
  if (atomic_load(&tsr_process_state) != TSR_READY) {
    tsr_config_read();
    warn_of_others();
    result = tsr_devices_discover();
    if (result == CUDA_SUCCESS) atomic_store(&tsr_process_state, TSR_READY);
  }
  pthread_mutex_unlock(&init_lock);
  return result;
}
