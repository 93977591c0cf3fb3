#define _POSIX_C_SOURCE 200809L
/* Threads that share contexts. Each pushes one, uses a stream, an event or memory in it that all
 * threads share, creates short-lived contexts and destroys them with work in flight, and pops.
 * Argument 1: PTX with the kernel spin (*p0 += p1); argument 2: steps of a thread. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "checked.h"

enum { THREADS = 6, CONTEXTS = 3, STREAMS = 4, APART_BYTES = 256, ADDED = 3 };

struct shared {
  CUcontext context;
  CUfunction function;
  CUdeviceptr words; /* one word for each stream; only the stream's launches write it */
  CUstream streams[STREAMS];
  CUevent events[STREAMS];
  _Atomic unsigned launches[STREAMS];
};
static struct shared all[CONTEXTS];
static const char *ptx;
static int steps;

static CUfunction load(void) {
  CUmodule module = NULL;
  CUfunction function = NULL;
  OK(cuModuleLoad(&module, ptx));
  OK(cuModuleGetFunction(&function, module, "spin"));
  return function;
}

static void spin(CUfunction function, CUstream stream, CUdeviceptr word, unsigned rounds) {
  void *parameters[] = {&word, &rounds};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void short_life(void) {
  CUcontext context;
  CUdeviceptr word;
  OK(cuCtxCreate_v2(&context, 0, 0));
  OK(cuMemAlloc_v2(&word, 4));
  spin(load(), NULL, word, 2000);
  OK(cuCtxDestroy_v2(context));
}

static void use_primary(void) {
  CUcontext context;
  CUdeviceptr memory;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxPushCurrent_v2(context));
  OK(cuMemAlloc_v2(&memory, 100));
  OK(cuMemFree_v2(memory));
  OK(cuCtxPopCurrent_v2(NULL));
  OK(cuDevicePrimaryCtxRelease_v2(0));
}

static void step(struct shared *one, unsigned random) {
  const unsigned k = random % STREAMS, other = random / STREAMS % STREAMS;
  CUdeviceptr memory;
  unsigned word;
  switch (random / 16 % 16) {
    case 0:
      short_life();
      return;
    case 1:
      use_primary();
      return;
    case 2:
    case 3:
      OK(cuEventRecord(one->events[k], one->streams[other]));
      return;
    case 4:
    case 5:
      OK(cuStreamWaitEvent(one->streams[k], one->events[other], 0));
      return;
    case 6:
      OK(cuEventSynchronize(one->events[k]));
      return;
    case 7:
      OK(cuMemAlloc_v2(&memory, random / 256 % 3000000 + 1));
      OK(cuMemsetD8_v2(memory, 1, 1));
      OK(cuMemFree_v2(memory));
      return;
    case 8:
      OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)&word, one->words, 4, one->streams[k]));
      return;
    default:
      spin(one->function, one->streams[k], one->words + APART_BYTES * k, ADDED);
      one->launches[k]++;
  }
}

static void *work(void *argument) {
  unsigned random = (unsigned)(uintptr_t)argument;
  for (int i = 0; i < steps; i++) {
    random = random * 1664525u + 1013904223u;
    struct shared *one = &all[(random >> 8) % CONTEXTS];
    CUcontext popped = NULL;
    OK(cuCtxPushCurrent_v2(one->context));
    step(one, random >> 12);
    OK(cuCtxPopCurrent_v2(&popped));
    if (popped != one->context) failures++;
  }
  return NULL;
}

static void begin(struct shared *one) {
  OK(cuCtxCreate_v2(&one->context, 0, 0));
  one->function = load();
  OK(cuMemAlloc_v2(&one->words, STREAMS * APART_BYTES));
  OK(cuMemsetD8_v2(one->words, 0, STREAMS * APART_BYTES));
  OK(cuCtxSynchronize());
  for (unsigned k = 0; k < STREAMS; k++) {
    OK(cuStreamCreate(&one->streams[k], k % 2));
    OK(cuEventCreate(&one->events[k], k % 2 ? 2 : 0));
  }
}

static void end(struct shared *one) {
  OK(cuCtxSetCurrent(one->context));
  OK(cuCtxSynchronize());
  for (unsigned k = 0; k < STREAMS; k++) {
    unsigned word = 0;
    OK(cuMemcpyDtoH_v2(&word, one->words + APART_BYTES * k, 4));
    if (word == ADDED * one->launches[k]) continue;
    fprintf(stderr, "stream %u: %u after %u launches\n", k, word, one->launches[k]);
    failures++;
  }
  OK(cuCtxDestroy_v2(one->context));
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  ptx = arguments[1];
  steps = atoi(arguments[2]);
  OK(cuInit(0));
  for (int i = 0; i < CONTEXTS; i++) begin(&all[i]);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < CONTEXTS; i++) end(&all[i]);
  printf("failures %d\n", failures);
  return failures != 0;
}
