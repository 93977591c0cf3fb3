/* The clock of waits and traces: CLOCK_MONOTONIC. */
#ifndef TSR_CLOCK_H
#define TSR_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tsr_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
