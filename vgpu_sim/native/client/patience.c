#define _GNU_SOURCE
#include "patience.h"

#include "clock.h"
#include "config.h"
#include "log.h"
#include "transport.h"

enum { FIRST_PAUSE_MS = 20, LONGEST_PAUSE_MS = 500 };

bool tsr_patience_wait(struct tsr_patience *patience, const char *path) {
  const int limit_s = tsr_config()->wait_s;
  const uint64_t now_ns = tsr_now_ns();
  if (patience->end_ns == 0) {
    if (limit_s == 0) return false;
    tsr_log("gpud does not serve %s: waiting for its restart, up to %d s", path, limit_s);
    patience->end_ns = now_ns + (uint64_t)limit_s * 1000000000u;
    patience->pause_ms = FIRST_PAUSE_MS;
  }
  if (now_ns >= patience->end_ns) {
    tsr_log("gpud has not served %s for %d s (TESSERA_WAIT_S): the program goes on without it",
            path, limit_s);
    return false;
  }
  const struct timespec pause = {.tv_nsec = patience->pause_ms * 1000000L};
  nanosleep(&pause, NULL); /* ended early by a signal it is a shorter pause */
  if (patience->pause_ms < LONGEST_PAUSE_MS) patience->pause_ms *= 2;
  return true;
}

int tsr_connect_patiently(struct tsr_patience *patience, const char *path) {
  int connected;
  do connected = tsr_connect(path);
  while (tsr_is_absent(connected, path) && tsr_patience_wait(patience, path));
  return connected;
}
