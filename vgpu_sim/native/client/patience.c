#define _GNU_SOURCE
#include "patience.h"

#include "clock.h"
#include "config.h"
#include "log.h"
#include "transport.h"

enum { FIRST_PAUSE_MS = 20, LONGEST_PAUSE_MS = 500 };

bool tsr_patience_wait(struct tsr_patience *patience, const char *who) {
  const int limit_s = tsr_config()->wait_s;
  const uint64_t now_ns = tsr_now_ns();
  if (patience->end_ns == 0) {
    if (limit_s == 0) return false;
    tsr_log("nobody listens at %s: waiting for gpud, up to %d s", who, limit_s);
    patience->end_ns = now_ns + (uint64_t)limit_s * 1000000000u;
    patience->pause_ms = FIRST_PAUSE_MS;
  }
  if (now_ns >= patience->end_ns) return false;
  const struct timespec pause = {.tv_nsec = patience->pause_ms * 1000000L};
  nanosleep(&pause, NULL); /* ended early by a signal it is a shorter pause */
  if (patience->pause_ms < LONGEST_PAUSE_MS) patience->pause_ms *= 2;
  return true;
}

int tsr_connect_patiently(const char *path) {
  struct tsr_patience patience = {0};
  int connected;
  do connected = tsr_connect(path);
  while (tsr_is_absent(connected, path) && tsr_patience_wait(&patience, path));
  return connected;
}
