/* Threads of the library, which take no signals of the program. */
#ifndef TSR_NCCL_BACKGROUND_H
#define TSR_NCCL_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>

/* Start a thread, which is detached if `thread` is NULL. */
bool tsr_background_start(void *(*run)(void *), void *argument, pthread_t *thread);

void tsr_background_join(pthread_t thread);

#endif
