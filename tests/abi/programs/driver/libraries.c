/* A context loads a library when it first uses the library. Threads that need the library, or
 * unload it, wait for that; other threads do not. Arguments: PTX with the kernel straight, which
 * takes long to load, and PTX with the kernel vecadd. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "checked.h"

DECLARE(cuLibraryLoadFromFile, CUlibrary *, const char *, CUjit_option *, void **, unsigned int,
        CUlibraryOption *, void **, unsigned int);
DECLARE(cuLibraryUnload, CUlibrary);
DECLARE(cuLibraryGetKernel, CUkernel *, CUlibrary, const char *);
DECLARE(cuKernelGetFunction, CUfunction *, CUkernel);

enum { USERS = 2 };
static CUcontext context;
static CUlibrary library;
static CUkernel kernels[USERS];
static atomic_int begun, ended, unloaded;

static void *use(void *kernel) {
  OK(cuCtxSetCurrent(context));
  begun++;
  OK(cuLibraryGetKernel(kernel, library, "straight"));
  ended++;
  return NULL;
}

static void *unload(void *unused) {
  OK(cuCtxSetCurrent(context));
  OK(cuLibraryUnload(library));
  unloaded = 1;
  return unused;
}

int main(int count, char **arguments) {
  pthread_t users[USERS], unloader;
  CUmodule module;
  CUfunction function;
  int rounds = 0, early = 0;
  if (count != 3) return 2;
  OK(cuInit(0));
  OK(cuLibraryLoadFromFile(&library, arguments[1], NULL, NULL, 0, NULL, NULL, 0)); /* nowhere yet */
  OK(cuCtxCreate_v2(&context, 0, 0));
  OK(cuModuleLoad(&module, arguments[2]));
  for (int i = 0; i < USERS; i++) pthread_create(&users[i], NULL, use, &kernels[i]);
  while (begun < USERS) usleep(1000);
  usleep(20000);
  pthread_create(&unloader, NULL, unload, NULL);
  do {
    OK(cuModuleGetFunction(&function, module, "vecadd"));
    usleep(1000);
    early += unloaded && !ended;
  } while (!ended && ++rounds < 20);
  printf("%s, unloaded %s, ", rounds > 0 ? "beside" : "behind", early ? "early" : "after");
  for (int i = 0; i < USERS; i++) pthread_join(users[i], NULL);
  pthread_join(unloader, NULL);
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuKernelGetFunction(&function, kernels[0]));
  if (kernels[0] != kernels[1]) failures++;
  printf("failures %d\n", failures);
  OK(cuCtxDestroy_v2(context));
  return failures != 0;
}
