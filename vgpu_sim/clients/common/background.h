/* Threads of a library, which take no signals of the program. */
#ifndef TSR_BACKGROUND_H
#define TSR_BACKGROUND_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "old_symbol.h"

TSR_OLD_SYMBOL(pthread_create);
TSR_OLD_SYMBOL(pthread_detach);
TSR_OLD_SYMBOL(pthread_join);
#pragma weak pthread_create
#pragma weak pthread_detach
#pragma weak pthread_join

/* Start a thread, which is detached if `thread` is NULL. False: there are no threads, or no more. */
static inline bool tsr_background_start(void *(*run)(void *), void *argument, pthread_t *thread) {
  int (*const create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
      pthread_create;
  if (!create) return false;
  sigset_t all, before;
  pthread_t started;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const bool done = create(&started, NULL, run, argument) == 0;
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (!done) return false;
  int (*const detach)(pthread_t) = pthread_detach;
  if (thread) *thread = started;
  else if (detach) detach(started);
  return true;
}

static inline void tsr_background_join(pthread_t thread) {
  int (*const join)(pthread_t, void **) = pthread_join;
  if (join) join(thread, NULL);
}

#endif
