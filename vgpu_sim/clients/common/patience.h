/* Waiting for a gpud that is being restarted or replaced, or for hcad to admit this program.
 *
 * If a slice's folder exists, a gpud will serve the slice: gpud creates and removes the folder
 * with the slice, and leaves it when gpud itself ends. */
#ifndef TSR_PATIENCE_H
#define TSR_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_patience {
  uint64_t begin_ns; /* 0: no wait has started yet */
  unsigned pause_ms;
  bool logged;
};

/* Sleep, longer each time; false at once when TESSERA_WAIT_S seconds have passed since the first
 * call. `path` is the socket, which the messages at the wait's beginning and failure name. */
bool tsr_patience_wait(struct tsr_patience *patience, const char *path);

/* The same, after gpud has closed the connection on a request for a context. In a pod gpud also
 * does that until the node agent has reported which pod holds the slice, so the messages mention
 * the agent. */
bool tsr_patience_wait_for_agent(struct tsr_patience *patience, const char *path);

/* The same, after gpud has not replied within `waited_s`, which count as a part of the wait. */
bool tsr_patience_wait_for_reply(struct tsr_patience *patience, const char *path, int waited_s);

/* The same, after hcad has answered EAGAIN to a request to open the function at `path`: hcad does
 * not know yet which pod holds the function, or has no tables that contain the pod. The wait is
 * logged only if it is long, because in a pod that has just started a short one is usual. */
bool tsr_patience_wait_for_function(struct tsr_patience *patience, const char *path);

/* Connect as tsr_connect does, but wait while the socket has no listener, or the listener accepts
 * no connection. */
int tsr_connect_patiently(struct tsr_patience *patience, const char *path);

#endif
