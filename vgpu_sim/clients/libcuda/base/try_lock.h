/* Taking a lock only where it is free, for threads that may hold it, or a lock behind it. */
#ifndef TSR_TRY_LOCK_H
#define TSR_TRY_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/* The symbol as glibc 2.17 has it, in libpthread: there it is missing in programs without that. */
#if defined(__x86_64__)
__asm__(".symver pthread_mutex_trylock,pthread_mutex_trylock@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_mutex_trylock,pthread_mutex_trylock@GLIBC_2.17");
#endif
#pragma weak pthread_mutex_trylock

static inline bool tsr_try_lock(pthread_mutex_t *lock) {
  int (*const take)(pthread_mutex_t *) = pthread_mutex_trylock;
  return take && take(lock) == 0;
}

#endif
