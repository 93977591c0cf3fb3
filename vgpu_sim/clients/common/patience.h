/* Waiting for a gpud that is being restarted or replaced.
 *
 * The slice's folder says that a gpud will serve it: gpud makes the folder with the slice and removes
 * it with the slice, and leaves it in place when it ends itself. */
#ifndef TSR_PATIENCE_H
#define TSR_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_patience {
  uint64_t end_ns; /* 0: nothing was waited for yet */
  unsigned pause_ms;
};

/* Sleeps, longer each time; false at once when TESSERA_WAIT_S seconds have passed since the first
 * call. `path` is the socket: lines on stderr name it when the wait begins, and when it was in vain. */
bool tsr_patience_wait(struct tsr_patience *patience, const char *path);

/* The same for a gpud that hangs up on a request for a context: in a pod it does so, too, while the
 * node's agent does not report which pod holds the slice, and the lines name the agent. */
bool tsr_patience_wait_for_agent(struct tsr_patience *patience, const char *path);

/* Connects as tsr_connect does, and waits while the socket has no listener. */
int tsr_connect_patiently(struct tsr_patience *patience, const char *path);

#endif
