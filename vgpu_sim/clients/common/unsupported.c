#include "unsupported.h"

#include <stdlib.h>

#include "config.h"
#include "log.h"

void tsr_end_if_strict(const char *what, const char *happened) {
  if (!tsr_config()->strict) return;
  tsr_log("%s %s and TESSERA_STRICT is set: ending the program", what, happened);
  abort();
}

void tsr_unsupported(const char *what, const char *status, uint32_t *said) {
  if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED) == 0)
    tsr_log("%s is not supported (%s)", what, status);
  tsr_end_if_strict(what, "was called");
}
