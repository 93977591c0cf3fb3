/* Initialisation, which is reference-counted, and status texts. */
#define _GNU_SOURCE
#include "library.h"

#include <pthread.h>
#include <stddef.h>

#include "api.h"
#include "config.h"
#include "log.h"
#include "status_table.h"
#include "view/view.h"

enum { INIT_FLAG_NO_GPUS = 1, INIT_FLAG_NO_ATTACH = 2 };

_Atomic unsigned tsr_users;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static void warn_no_slice(void) {
  static bool said;
  if (!said)
    tsr_log("no slice in %s: start the program with `tessera run`, or ask for a GPU in the pod's"
            " limits",
            tsr_config()->slices_dir);
  said = true;
}

nvmlReturn_t tsr_nvmlInitWithFlags(unsigned int flags) {
  if (flags & ~(unsigned)(INIT_FLAG_NO_GPUS | INIT_FLAG_NO_ATTACH))
    return NVML_ERROR_INVALID_ARGUMENT;
  pthread_mutex_lock(&changing);
  nvmlReturn_t result = NVML_SUCCESS;
  if (atomic_load(&tsr_users) == 0) {
    tsr_config_read();
    result = tsr_view_open();
    if (result == NVML_ERROR_DRIVER_NOT_LOADED) warn_no_slice();
  }
  if (result == NVML_SUCCESS) atomic_fetch_add(&tsr_users, 1);
  pthread_mutex_unlock(&changing);
  return result;
}

nvmlReturn_t tsr_nvmlInit(void) { return tsr_nvmlInitWithFlags(0); }
nvmlReturn_t tsr_nvmlInit_v2(void) { return tsr_nvmlInitWithFlags(0); }

nvmlReturn_t tsr_nvmlShutdown(void) {
  pthread_mutex_lock(&changing);
  const unsigned users = atomic_load(&tsr_users);
  if (users) atomic_store(&tsr_users, users - 1);
  if (users == 1) tsr_view_forget();
  pthread_mutex_unlock(&changing);
  return users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char *tsr_nvmlErrorString(nvmlReturn_t code) {
  for (size_t i = 0; i < tsr_status_count; i++)
    if (tsr_statuses[i].code == (int)code) return tsr_statuses[i].text;
  return "Unknown Error";
}
