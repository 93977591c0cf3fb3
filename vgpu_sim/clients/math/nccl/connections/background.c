#define _GNU_SOURCE
#include "connections/background.h"

#include <signal.h>

#include "old_symbol.h"

TSR_OLD_SYMBOL(pthread_create);
TSR_OLD_SYMBOL(pthread_detach);
TSR_OLD_SYMBOL(pthread_join);
#pragma weak pthread_create
#pragma weak pthread_detach
#pragma weak pthread_join

bool tsr_background_start(void *(*run)(void *), void *argument, pthread_t *thread) {
  int (*const create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = pthread_create;
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

void tsr_background_join(pthread_t thread) {
  int (*const join)(pthread_t, void **) = pthread_join;
  if (join) join(thread, NULL);
}
