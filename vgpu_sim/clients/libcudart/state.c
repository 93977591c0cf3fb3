/* The driver, and each thread's device and context. */
#define _GNU_SOURCE
#include "state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MAX_DEVICES = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int device_count = -1; /* -1: the driver is not initialised */
static _Atomic(CUcontext) primaries[MAX_DEVICES];

/* The thread's device, and the primary context that this library has made current. */
static __thread int chosen;
static __thread CUcontext bound;

static cudaError_t initialise(void) {
  pthread_mutex_lock(&lock);
  int count = 0, result = cuInit(0);
  if (result == cudaSuccess) result = cuDeviceGetCount(&count);
  if (result == cudaSuccess && count == 0) result = cudaErrorNoDevice;
  if (result == cudaSuccess) atomic_store(&device_count, count < MAX_DEVICES ? count : MAX_DEVICES);
  pthread_mutex_unlock(&lock);
  return result;
}

cudaError_t tsr_use_driver(void) {
  if (__builtin_expect(atomic_load_explicit(&device_count, memory_order_acquire) >= 0, 1))
    return cudaSuccess;
  return initialise();
}

int tsr_device_count(void) { return atomic_load(&device_count); }

cudaError_t tsr_primary(int device, CUcontext *context) {
  if (device < 0 || device >= tsr_device_count()) return cudaErrorInvalidDevice;
  *context = atomic_load_explicit(&primaries[device], memory_order_acquire);
  if (*context) return cudaSuccess;
  pthread_mutex_lock(&lock);
  int result = cudaSuccess;
  *context = atomic_load(&primaries[device]);
  if (!*context) result = cuDevicePrimaryCtxRetain(context, device);
  if (result == cudaSuccess) atomic_store(&primaries[device], *context);
  pthread_mutex_unlock(&lock);
  return result;
}

/* Forget a primary context that the program has ended by the driver API. */
static void forget_primary(int device, CUcontext context) {
  atomic_compare_exchange_strong(&primaries[device], &context, NULL);
}

static cudaError_t bind_primary(int device) {
  CUcontext context;
  cudaError_t result = cudaSuccess;
  for (int attempt = 0; attempt < 2; attempt++) {
    result = tsr_primary(device, &context);
    if (result != cudaSuccess) return result;
    result = cuCtxSetCurrent(context);
    if (result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) break;
    forget_primary(device, context);
  }
  if (result == cudaSuccess) bound = context;
  return result;
}

cudaError_t tsr_use_context(void) {
  cudaError_t result = tsr_use_driver();
  if (__builtin_expect(result != cudaSuccess, 0)) return result;
  CUcontext current = NULL;
  result = cuCtxGetCurrent(&current);
  if (__builtin_expect(result != cudaSuccess, 0)) return result;
  /* A primary context that another thread has reset is replaced by the new one. */
  const bool ours = current && current == bound;
  if (current && !(ours && atomic_load_explicit(&primaries[chosen], memory_order_acquire) != bound))
    return cudaSuccess;
  return bind_primary(chosen);
}

int tsr_device(void) {
  CUcontext current = NULL;
  int device;
  if (cuCtxGetCurrent(&current) == cudaSuccess && current && cuCtxGetDevice(&device) == cudaSuccess)
    return device;
  return chosen;
}

cudaError_t tsr_set_device(int device) {
  if (device < 0 || device >= tsr_device_count()) return cudaErrorInvalidDevice;
  const cudaError_t result = bind_primary(device);
  if (result == cudaSuccess) chosen = device;
  return result;
}

cudaError_t tsr_reset_device(int device) {
  pthread_mutex_lock(&lock);
  const int result = cuDevicePrimaryCtxReset_v2(device);
  if (result == cudaSuccess) atomic_store(&primaries[device], NULL);
  pthread_mutex_unlock(&lock);
  /* As with NVIDIA's runtime, the ended context stays current to the thread. Its next call that needs
   * one makes a new primary context of that device. */
  CUcontext current = NULL;
  unsigned int version;
  if (result == cudaSuccess && cuCtxGetCurrent(&current) == cudaSuccess && current &&
      cuCtxGetApiVersion(current, &version) != cudaSuccess) {
    bound = current;
    chosen = device;
  }
  return result;
}
