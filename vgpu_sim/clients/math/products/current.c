#include "current.h"

#include <pthread.h>
#include <stddef.h>

extern int cuInit(unsigned int flags);
extern int cuCtxGetCurrent(void **context);
extern int cuCtxSetCurrent(void *context);
extern int cuCtxGetDevice(int *device);
extern int cuDevicePrimaryCtxRetain(void **context, int device);
extern int cuDevicePrimaryCtxRelease_v2(int device);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `retained` */

bool tsr_current_init(struct tsr_current *current) {
  if (cuInit(0) != 0) return false;
  if (cuCtxGetDevice(&current->device) != 0) current->device = 0;
  return true;
}

bool tsr_current_enter(struct tsr_current *current) {
  void *context = NULL;
  if (cuCtxGetCurrent(&context) == 0 && context) return true;
  pthread_mutex_lock(&lock);
  if (!current->retained && cuDevicePrimaryCtxRetain(&current->retained, current->device) != 0)
    current->retained = NULL;
  context = current->retained;
  pthread_mutex_unlock(&lock);
  return context && cuCtxSetCurrent(context) == 0;
}

void tsr_current_end(const struct tsr_current *current) {
  if (current->retained) cuDevicePrimaryCtxRelease_v2(current->device);
}
