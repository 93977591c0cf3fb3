/* What rooms above contexts do on occasions of a context. They register functions here, because
 * contexts call no room that is above them. */
#ifndef TSR_HOOKS_H
#define TSR_HOOKS_H

#include "base/objects.h"

enum tsr_occasion {
  TSR_ON_SYNCHRONIZED, /* all work of the context is done */
  TSR_ON_CLOSE,        /* the context's handle is invalid, and its memory is about to go */
  TSR_ON_PHYSICAL_FREED, /* memory of cuMemCreate of the context may have been freed; no lock is held */
  TSR_OCCASIONS
};

typedef void tsr_hook(struct tsr_context *context);

/* Register a function; registering it again does nothing. */
void tsr_hook_add(enum tsr_occasion occasion, tsr_hook *hook);

/* Call all functions of an occasion, in the order of registration. */
void tsr_hooks_run(enum tsr_occasion occasion, struct tsr_context *context);

#endif
