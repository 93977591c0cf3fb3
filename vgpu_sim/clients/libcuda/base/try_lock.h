/* Try-lock, for threads that may already hold the lock, or a lock that comes later in the lock
 * order. */
#ifndef TSR_TRY_LOCK_H
#define TSR_TRY_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "old_symbol.h"

/* Use the symbol of glibc 2.17, which is in libpthread; a program without libpthread does not
 * have it. */
TSR_OLD_SYMBOL(pthread_mutex_trylock);
#pragma weak pthread_mutex_trylock

static inline bool tsr_try_lock(pthread_mutex_t *lock) {
  int (*const take)(pthread_mutex_t *) = pthread_mutex_trylock;
  return take && take(lock) == 0;
}

#endif
