#define _POSIX_C_SOURCE 200809L
/* Uses only dlopen and cuGetProcAddress, as language runtimes do; then forks. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_types.h"

typedef CUresult resolver(const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *);

static resolver *resolve;

static void get(void *function, const char *name) {
  if (resolve(name, function, 13000, 0, NULL) != CUDA_SUCCESS) _exit(3);
}

int main(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  void *address = dlsym(library, "cuGetProcAddress_v2");
  memcpy(&resolve, &address, sizeof address);
  CUresult (*init)(unsigned), (*retain)(CUcontext *, CUdevice), (*set_current)(CUcontext),
      (*allocate)(CUdeviceptr *, size_t), (*fill)(CUdeviceptr, unsigned, size_t),
      (*read)(void *, CUdeviceptr, size_t), (*synchronize)(void);
  get(&init, "cuInit");
  get(&retain, "cuDevicePrimaryCtxRetain");
  get(&set_current, "cuCtxSetCurrent");
  get(&allocate, "cuMemAlloc");
  get(&fill, "cuMemsetD32");
  get(&read, "cuMemcpyDtoH");
  get(&synchronize, "cuCtxSynchronize");
  CUcontext context;
  CUdeviceptr memory;
  if (synchronize() != CUDA_ERROR_NOT_INITIALIZED) return 4;
  if (init(0) || retain(&context, 0) || set_current(context) || allocate(&memory, 4096)) return 5;
  if (fill(memory, 77, 1024)) return 6;
  const pid_t child = fork();
  if (child == 0) {
    uint32_t word;
    const int forked = init(0) == CUDA_ERROR_NOT_INITIALIZED &&
                       read(&word, memory, 4) == CUDA_ERROR_NOT_INITIALIZED &&
                       synchronize() == CUDA_ERROR_NOT_INITIALIZED;
    _exit(forked ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  uint32_t words[1024];
  if (read(words, memory, sizeof words)) return 7;
  for (int i = 0; i < 1024; i++)
    if (words[i] != 77) return 8;
  printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 0;
}
