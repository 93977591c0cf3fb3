#define _GNU_SOURCE
#include "patience.h"

#include <string.h>

#include "clock.h"
#include "config.h"
#include "log.h"
#include "transport.h"

enum { FIRST_PAUSE_MS = 20, LONGEST_PAUSE_MS = 500, LONG_WAIT_S = 2 };

static const uint64_t NS_PER_S = 1000000000u;

#define AGENT "the node's agent (DaemonSet tessera-node-<pool>)"

/* Programs of `tessera run` have a token, so gpud needs no node agent's report for them. */
static bool is_in_pod(void) {
  static const uint8_t none[TESSERA_TOKEN_BYTES];
  return memcmp(tsr_config()->token, none, sizeof none) == 0;
}

/* Why a program waits for gpud. */
enum cause { NO_LISTENER, NO_REPORT, NO_REPLY };

static void log_waiting(const char *path, int limit_s, enum cause cause) {
  if (cause == NO_REPLY)
    tsr_log("gpud does not answer on %s: waiting for it, or for its restart, up to %d s", path,
            limit_s);
  else if (cause == NO_REPORT)
    tsr_log("gpud does not serve %s: waiting for its restart, or for " AGENT " to report that this"
            " pod holds the slice, up to %d s",
            path, limit_s);
  else
    tsr_log("gpud does not serve %s: waiting for its restart, up to %d s", path, limit_s);
}

static void log_gave_up(const char *path, int limit_s, enum cause cause) {
  if (cause == NO_REPLY)
    tsr_log("gpud has not answered on %s for %d s (TESSERA_WAIT_S): it hangs, or gets too little"
            " CPU time; the program goes on without it",
            path, limit_s);
  else if (cause == NO_REPORT)
    tsr_log("gpud has not served %s for %d s (TESSERA_WAIT_S): " AGENT " does not run or is being"
            " replaced, and has not reported that this pod holds the slice; the program goes on"
            " without it",
            path, limit_s);
  else
    tsr_log("gpud has not served %s for %d s (TESSERA_WAIT_S): the program goes on without it",
            path, limit_s);
}

/* Sleep, longer each time. Returns false at once if the wait has taken `limit_s`. */
static bool pause_until(struct tsr_patience *patience, int limit_s) {
  const uint64_t now_ns = tsr_now_ns();
  if (patience->begin_ns == 0) {
    patience->begin_ns = now_ns;
    patience->pause_ms = FIRST_PAUSE_MS;
  }
  if (now_ns - patience->begin_ns >= (uint64_t)limit_s * NS_PER_S) return false;
  const struct timespec pause = {.tv_nsec = patience->pause_ms * 1000000L};
  nanosleep(&pause, NULL); /* a signal only shortens the pause */
  if (patience->pause_ms < LONGEST_PAUSE_MS) patience->pause_ms *= 2;
  return true;
}

static bool wait_for(struct tsr_patience *patience, const char *path, enum cause cause) {
  const int limit_s = tsr_config()->wait_s;
  if (limit_s == 0) return false;
  if (!patience->logged) log_waiting(path, limit_s, cause);
  patience->logged = true;
  if (pause_until(patience, limit_s)) return true;
  log_gave_up(path, limit_s, cause);
  return false;
}

bool tsr_patience_wait(struct tsr_patience *patience, const char *path) {
  return wait_for(patience, path, NO_LISTENER);
}

bool tsr_patience_wait_for_agent(struct tsr_patience *patience, const char *path) {
  return wait_for(patience, path, is_in_pod() ? NO_REPORT : NO_LISTENER);
}

bool tsr_patience_wait_for_reply(struct tsr_patience *patience, const char *path, int waited_s) {
  const int limit_s = tsr_config()->wait_s;
  if (patience->begin_ns == 0) {
    patience->begin_ns = tsr_now_ns() - (uint64_t)waited_s * NS_PER_S;
    patience->pause_ms = FIRST_PAUSE_MS;
  }
  if (limit_s > waited_s) return wait_for(patience, path, NO_REPLY);
  log_gave_up(path, waited_s, NO_REPLY); /* the request itself has taken longer than the limit */
  return false;
}

bool tsr_patience_wait_for_function(struct tsr_patience *patience, const char *path) {
  const int limit_s = tsr_config()->wait_s;
  if (!pause_until(patience, limit_s)) {
    tsr_log("hcad has not opened %s for %d s (TESSERA_WAIT_S): " AGENT " has not reported that this"
            " pod holds the HCA function, or has sent no RDMA tables that contain the pod; see the"
            " pod's events, and open_refused in the logs of hcad",
            path, limit_s);
    return false;
  }
  if (!patience->logged && tsr_now_ns() - patience->begin_ns >= LONG_WAIT_S * NS_PER_S) {
    tsr_log("hcad does not open %s yet: waiting for " AGENT " to report this pod, up to %d s", path,
            limit_s);
    patience->logged = true;
  }
  return true;
}

int tsr_connect_patiently(struct tsr_patience *patience, const char *path) {
  int connected;
  bool again;
  do {
    connected = tsr_connect(path);
    again = tsr_is_silent(connected)
                ? tsr_patience_wait_for_reply(patience, path, TSR_CONNECT_TIMEOUT_S)
                : tsr_is_absent(connected, path) && tsr_patience_wait(patience, path);
  } while (again);
  return connected;
}
