/* Waiting for a gpud that is being restarted, which takes it a few seconds. */
#ifndef TSR_PATIENCE_H
#define TSR_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_patience {
  uint64_t end_ns; /* 0: nothing was waited for yet */
  unsigned pause_ms;
};

/* Sleeps, longer each time; false at once when TESSERA_WAIT_S seconds have passed since the first
 * call. `who` is named in a line on stderr when the wait begins. */
bool tsr_patience_wait(struct tsr_patience *patience, const char *who);

/* Connects as tsr_connect does, and waits while nobody listens. */
int tsr_connect_patiently(const char *path);

#endif
