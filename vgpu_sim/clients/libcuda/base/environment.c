#include "base/environment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "tessera_abi.h"

static bool is_on(const char *name) {
  const char *value = getenv(name);
  return !value || strcmp(value, "0") != 0;
}

bool tsr_loads_linkers(void) { return is_on("TESSERA_NVJITLINK"); }

bool tsr_loads_compilers(void) { return is_on("TESSERA_NVRTC"); }

const char *tsr_visible_devices(void) { return getenv("CUDA_VISIBLE_DEVICES"); }

bool tsr_loads_lazily(void) {
  const char *value = getenv("CUDA_MODULE_LOADING");
  return !value || strcmp(value, "EAGER") != 0;
}

uint32_t tsr_thread_share(void) {
  static const char NAME[] = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
  static atomic_bool said;
  const char *value = getenv(NAME);
  if (!value || !*value) return 0;
  char *end;
  const double percent = strtod(value, &end); /* it may have a fraction */
  if (*end == 0 && percent > 0 && percent <= 100) { /* also false for NaN */
    const uint32_t share = (uint32_t)(percent / 100 * TESSERA_WHOLE_THREAD_SHARE);
    return share ? share : 1;
  }
  if (!atomic_exchange(&said, true))
    tsr_log("%s=%s is ignored: it must be a percentage above 0, up to 100", NAME, value);
  return 0;
}

int tsr_hang_notice_s(void) {
  enum { DEFAULT_S = 10, MAX_S = 3600 };
  static const char NAME[] = "TESSERA_HANG_NOTICE_S";
  static atomic_bool said;
  const char *value = getenv(NAME);
  if (!value || !*value) return DEFAULT_S;
  char *end;
  const long seconds = strtol(value, &end, 10);
  if (*end == 0 && seconds >= 0 && seconds <= MAX_S) return (int)seconds;
  if (!atomic_exchange(&said, true))
    tsr_log("%s=%s is ignored: it must be a number of seconds from 0 to %d", NAME, value, MAX_S);
  return DEFAULT_S;
}
