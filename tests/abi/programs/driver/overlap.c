/* Kernels that wait for later work of other streams. Argument 1 is a PTX file with the kernels
 * await(flag, seen), which polls a word until it is not 0, and raise(flag). */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checked.h"

enum { NON_BLOCKING = 1, STREAMS = 4, WORDS = 16, LARGE_BYTES = 8 << 20, ROUNDS = 3 };

static CUfunction await_flag, raise_flag;
static CUdeviceptr flags, large;
static CUstream streams[STREAMS];
static void *pinned;

static CUdeviceptr flag(unsigned i) { return flags + i * sizeof(unsigned); }

static unsigned read_flag(unsigned i) {
  unsigned value = 0;
  CUstream copies = streams[STREAMS - 1];
  OK(cuMemcpyAsync((CUdeviceptr)(unsigned long)pinned, flag(i), sizeof value, copies));
  OK(cuStreamSynchronize(copies));
  memcpy(&value, pinned, sizeof value);
  return value;
}

static void await_on(unsigned stream, unsigned awaited, unsigned seen) {
  CUdeviceptr values[] = {flag(awaited), flag(seen)};
  void *parameters[] = {&values[0], &values[1]};
  OK(cuLaunchKernel(await_flag, 1, 1, 1, 1, 1, 1, 0, streams[stream], parameters, NULL));
}

static void raise_on(unsigned stream, unsigned which) {
  CUdeviceptr value = flag(which);
  void *parameters[] = {&value};
  OK(cuLaunchKernel(raise_flag, 1, 1, 1, 1, 1, 1, 0, streams[stream], parameters, NULL));
}

/* Raise the flag by a kernel, through another stream's kernel, by a fill, by a copy, each
 * enqueued later. */
static void run_round(void) {
  OK(cuMemsetD8_v2(flags, 0, WORDS * sizeof(unsigned)));
  await_on(0, 1, 2);
  await_on(1, 3, 1);
  raise_on(2, 3);
  OK(cuStreamSynchronize(streams[0]));
  if (read_flag(2) != 1) failures++;
  await_on(0, 4, 5);
  OK(cuMemsetD32Async(flag(4), 7, 1, streams[1]));
  OK(cuStreamSynchronize(streams[0]));
  await_on(0, 6, 8);
  OK(cuMemsetD8_v2(large, 1, 64));
  OK(cuMemcpyAsync(large + LARGE_BYTES / 2, large, LARGE_BYTES / 2, streams[1]));
  OK(cuMemcpyAsync(flag(6), large + LARGE_BYTES / 2, 4, streams[1]));
  OK(cuStreamSynchronize(streams[0]));
  if (read_flag(8) != 0x01010101) failures++;
}

/* A blocking stream and the legacy stream are still ordered. */
static void check_order(void) {
  CUstream blocking;
  CUdeviceptr values[] = {flag(9), flag(10)};
  void *parameters[] = {&values[0], &values[1]};
  OK(cuStreamCreate(&blocking, 0));
  OK(cuLaunchKernel(await_flag, 1, 1, 1, 1, 1, 1, 0, blocking, parameters, NULL));
  OK(cuMemsetD32Async(flag(11), 1, 1, NULL)); /* after it */
  usleep(20000);
  if (read_flag(11) != 0) failures++;
  raise_on(2, 9);
  OK(cuCtxSynchronize());
  if (read_flag(11) != 1 || read_flag(10) != 1) failures++;
  OK(cuStreamDestroy_v2(blocking));
}

int main(int count, char **arguments) {
  CUcontext context;
  CUmodule module;
  if (count != 2) return 2;
  alarm(100); /* without overlap, it waits forever */
  OK(cuInit(0));
  OK(cuCtxCreate_v2(&context, 0, 0));
  OK(cuModuleLoad(&module, arguments[1]));
  OK(cuModuleGetFunction(&await_flag, module, "await"));
  OK(cuModuleGetFunction(&raise_flag, module, "raise"));
  OK(cuMemHostAlloc(&pinned, sizeof(unsigned), 0));
  OK(cuMemAlloc_v2(&flags, WORDS * sizeof(unsigned)));
  OK(cuMemAlloc_v2(&large, LARGE_BYTES));
  for (int i = 0; i < STREAMS; i++) OK(cuStreamCreate(&streams[i], NON_BLOCKING));
  for (int i = 0; i < ROUNDS; i++) run_round();
  check_order();
  /* Unload a module whose kernel runs: the kernel ends first. */
  await_on(0, 12, 13);
  OK(cuMemsetD32Async(flag(12), 1, 1, streams[1]));
  OK(cuModuleUnload(module));
  OK(cuCtxDestroy_v2(context));
  printf("failures %d\n", failures);
  return failures != 0;
}
