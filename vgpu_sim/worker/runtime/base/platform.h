/* Futex, clock, CPU pause and pages: the platform functions that the runtime needs beyond libc. */
#ifndef TESSERA_WORKER_PLATFORM_H
#define TESSERA_WORKER_PLATFORM_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tessera_abi.h"

static inline uint64_t tw_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static inline void tw_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* The counter that llvm.readcyclecounter reads in kernels. */
static inline uint64_t tw_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

static inline uint64_t tw_whole_pages(uint64_t bytes) {
  return (bytes + TESSERA_PAGE_BYTES - 1) & ~(uint64_t)(TESSERA_PAGE_BYTES - 1);
}

/* Sleep while *word == value, at most `timeout_ns` (0: no limit). It may return earlier. */
static inline void tw_futex_wait(const uint32_t *word, uint32_t value, uint64_t timeout_ns) {
  struct timespec t = {.tv_sec = (time_t)(timeout_ns / UINT64_C(1000000000)),
                       .tv_nsec = (long)(timeout_ns % UINT64_C(1000000000))};
  syscall(SYS_futex, word, FUTEX_WAIT, value, timeout_ns ? &t : NULL, NULL, 0);
}

static inline void tw_futex_wake_all(const uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
