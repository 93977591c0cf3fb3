/* Plans of cuFFT, which are numbers, and what the library says of itself. */
#include <pthread.h>
#include <stdbool.h>

#include "api.h"

enum { MAX_PLANS = 1024, FIRST_PLAN = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  bool is_used;
  int allocates; /* whether a plan allocates its work area itself */
  cudaStream_t stream;
} plans[MAX_PLANS]; /* with lock */

extern int cuInit(unsigned int flags);

/* Return a plan's place, or -1. The caller holds the lock. */
static int place_of(cufftHandle plan) {
  const int place = plan - FIRST_PLAN;
  return place >= 0 && place < MAX_PLANS && plans[place].is_used ? place : -1;
}

cufftResult tsr_cufftCreate(cufftHandle *handle) {
  if (!handle) return CUFFT_INVALID_VALUE;
  if (cuInit(0) != 0) return CUFFT_SETUP_FAILED;
  cufftResult result = CUFFT_ALLOC_FAILED;
  pthread_mutex_lock(&lock);
  for (int place = 0; place < MAX_PLANS; ++place)
    if (!plans[place].is_used) {
      plans[place].is_used = true;
      plans[place].allocates = 1;
      plans[place].stream = NULL;
      *handle = place + FIRST_PLAN;
      result = CUFFT_SUCCESS;
      break;
    }
  pthread_mutex_unlock(&lock);
  return result;
}

cufftResult tsr_cufftDestroy(cufftHandle plan) {
  pthread_mutex_lock(&lock);
  const int place = place_of(plan);
  if (place >= 0) plans[place].is_used = false;
  pthread_mutex_unlock(&lock);
  return place >= 0 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult tsr_cufftSetStream(cufftHandle plan, cudaStream_t stream) {
  pthread_mutex_lock(&lock);
  const int place = place_of(plan);
  if (place >= 0) plans[place].stream = stream;
  pthread_mutex_unlock(&lock);
  return place >= 0 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult tsr_cufftSetAutoAllocation(cufftHandle plan, int autoAllocate) {
  pthread_mutex_lock(&lock);
  const int place = place_of(plan);
  if (place >= 0) plans[place].allocates = autoAllocate != 0;
  pthread_mutex_unlock(&lock);
  return place >= 0 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult tsr_cufftGetVersion(int *version) {
  if (!version) return CUFFT_INVALID_VALUE;
  const struct tsr_version own = TSR_FFT_VERSION;
  *version = own.major * 1000 + own.minor * 100 + own.patch;
  return CUFFT_SUCCESS;
}

cufftResult tsr_cufftGetProperty(int type, int *value) {
  if (!value || tsr_version_part(TSR_FFT_VERSION, type) < 0) return CUFFT_INVALID_VALUE;
  *value = tsr_version_part(TSR_FFT_VERSION, type);
  return CUFFT_SUCCESS;
}
