#include "base/hooks.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_HOOKS = 8 };

static _Atomic(tsr_hook *) hooks[TSR_OCCASIONS][MAX_HOOKS];

void tsr_hook_add(enum tsr_occasion occasion, tsr_hook *hook) {
  for (size_t i = 0; i < MAX_HOOKS; i++) {
    tsr_hook *registered = NULL;
    if (atomic_compare_exchange_strong(&hooks[occasion][i], &registered, hook) ||
        registered == hook)
      return;
  }
  abort(); /* the rooms that register functions are known when this is compiled */
}

void tsr_hooks_run(enum tsr_occasion occasion, struct tsr_context *context) {
  for (size_t i = 0; i < MAX_HOOKS; i++) {
    tsr_hook *hook = atomic_load(&hooks[occasion][i]);
    if (hook) hook(context);
  }
}
