/* A module that takes long to load does not block other threads. Arguments: the module's PTX,
 * and PTX with the kernel vecadd. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "checked.h"

static CUcontext context;
static atomic_int begun, ended;

static void *load_slowly(void *path) {
  CUmodule module;
  OK(cuCtxSetCurrent(context));
  begun = 1;
  OK(cuModuleLoad(&module, path));
  ended = 1;
  OK(cuModuleUnload(module));
  return NULL;
}

/* Use a module in ways that do not depend on the other thread. */
static void work(const char *path) {
  CUmodule module;
  CUfunction function;
  CUdeviceptr memory;
  unsigned count = 0;
  OK(cuModuleLoad(&module, path));
  OK(cuModuleGetFunction(&function, module, "vecadd"));
  OK(cuMemAlloc_v2(&memory, 4096));
  void *parameters[] = {&memory, &memory, &memory, &count};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
  OK(cuCtxSynchronize());
  OK(cuMemFree_v2(memory));
  OK(cuModuleUnload(module));
}

int main(int count, char **arguments) {
  pthread_t thread;
  if (count != 3) return 2;
  OK(cuInit(0));
  OK(cuCtxCreate_v2(&context, 0, 0));
  work(arguments[2]); /* from now on the module is in the cache */
  pthread_create(&thread, NULL, load_slowly, arguments[1]);
  while (!begun) usleep(1000);
  usleep(20000);
  int rounds = 0;
  do work(arguments[2]);
  while (!ended && ++rounds < 20);
  printf("%s, failures %d\n", rounds > 0 ? "beside" : "behind", failures);
  pthread_join(thread, NULL);
  OK(cuCtxDestroy_v2(context));
  return failures != 0;
}
