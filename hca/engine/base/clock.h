/* The engine's clock: CLOCK_MONOTONIC in nanoseconds. */
#ifndef HCA_CLOCK_H
#define HCA_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t hca_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
