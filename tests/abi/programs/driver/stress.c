#define _POSIX_C_SOURCE 200809L
/* Threads that allocate, copy, fill, record and destroy concurrently in one context, and misuse
 * objects that others have destroyed. Argument 1: PTX with the kernel vecadd; argument 2:
 * rounds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checked.h"

enum { THREADS = 4, N = 3000 };

static const char *ptx;
static int rounds;
static CUcontext shared_context;
static CUevent shared_event;
static void add(CUfunction function, CUstream stream, float *pinned, unsigned seed) {
  CUdeviceptr memory[3];
  for (int i = 0; i < 3; i++) OK(cuMemAlloc_v2(&memory[i], N * sizeof(float)));
  for (int i = 0; i < N; i++) {
    pinned[i] = (float)(seed % 1000 + (unsigned)i);
    pinned[N + i] = (float)i;
  }
  OK(cuMemcpyAsync(memory[0], (CUdeviceptr)(uintptr_t)pinned, N * sizeof(float), stream));
  OK(cuMemcpyAsync(memory[1], (CUdeviceptr)(uintptr_t)(pinned + N), N * sizeof(float), stream));
  OK(cuMemsetD32Async(memory[2], 0xffffffff, N, stream));
  int n = N;
  void *parameters[] = {&memory[0], &memory[1], &memory[2], &n};
  OK(cuLaunchKernel(function, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
  static __thread float back[N];
  OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)back, memory[2], sizeof back, stream));
  OK(cuStreamSynchronize(stream));
  for (int i = 0; i < N; i++)
    if (back[i] != (float)(seed % 1000 + 2u * (unsigned)i)) {
      fprintf(stderr, "element %d is %f\n", i, (double)back[i]);
      failures++;
      break;
    }
  for (int i = 0; i < 3; i++) OK(cuMemFree_v2(memory[i]));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(memory[0] + 1));
}

static void *work(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  OK(cuCtxSetCurrent(shared_context));
  for (int round = 0; round < rounds; round++) {
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUevent event;
    void *pinned;
    OK(cuModuleLoad(&module, ptx));
    OK(cuModuleGetFunction(&function, module, "vecadd"));
    OK(cuStreamCreate(&stream, (unsigned)round % 2));
    OK(cuEventCreate(&event, round % 3 ? 2 : 0));
    OK(cuMemHostAlloc(&pinned, 2 * N * sizeof(float), 0));
    for (int i = 0; i < 3; i++) add(function, stream, pinned, seed = seed * 1664525u + 1013904223u);
    OK(cuEventRecord(event, stream));
    OK(cuEventRecord(shared_event, stream));
    OK(cuStreamWaitEvent(NULL, event, 0));
    OK(cuStreamWaitEvent(stream, shared_event, 0));
    OK(cuEventSynchronize(event));
    OK(cuStreamDestroy_v2(stream));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream));
    OK(cuEventDestroy_v2(event));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, NULL));
    OK(cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_HANDLE,
          cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuMemFreeHost(pinned));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
  }
  return NULL;
}

/* Use the shared context while the main thread destroys it: every result is allowed except a
 * crash. */
static void *misuse(void *argument) {
  _Atomic int *stop = argument;
  cuCtxSetCurrent(shared_context);
  while (!*stop) {
    CUdeviceptr memory;
    CUstream stream;
    if (cuMemAlloc_v2(&memory, 5000) == CUDA_SUCCESS) cuMemFree_v2(memory);
    if (cuStreamCreate(&stream, 0) == CUDA_SUCCESS) {
      cuEventRecord(shared_event, stream);
      cuStreamSynchronize(stream);
      cuStreamDestroy_v2(stream);
    }
    cuCtxSynchronize();
  }
  return NULL;
}

static void run(void *(*body)(void *), void *argument, pthread_t *threads) {
  for (uintptr_t i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, body, argument ? argument : (void *)(i + 1));
}

static void join(const pthread_t *threads) {
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  ptx = arguments[1];
  rounds = atoi(arguments[2]);
  OK(cuInit(0));
  pthread_t threads[THREADS];
  OK(cuCtxCreate_v2(&shared_context, 0, 0));
  OK(cuEventCreate(&shared_event, 0));
  run(work, NULL, threads);
  join(threads);
  OK(cuCtxSynchronize());
  for (int i = 0; i < 3; i++) {
    _Atomic int stop = 0;
    run(misuse, &stop, threads);
    struct timespec pause = {.tv_nsec = 30000000};
    nanosleep(&pause, NULL);
    OK(cuCtxDestroy_v2(shared_context));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(shared_context));
    stop = 1;
    join(threads);
    OK(cuCtxCreate_v2(&shared_context, 0, 0));
    OK(cuEventCreate(&shared_event, 0));
  }
  OK(cuCtxDestroy_v2(shared_context));
  printf("failures %d\n", failures);
  return failures != 0;
}
