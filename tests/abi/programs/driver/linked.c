/* A C program linked with -lcuda. Argument 1 is a PTX file with the kernel vecadd. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_types.h"

CUresult cuInit(unsigned int);
CUresult cuDriverGetVersion(int *);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuModuleLoad(CUmodule *, const char *);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void **, void **);
CUresult cuCtxSynchronize(void);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGraphicsUnregisterResource(void *);

#define CHECK(call)                                       \
  do {                                                    \
    const CUresult result = (call);                       \
    if (result != CUDA_SUCCESS) {                         \
      const char *name = "?";                             \
      cuGetErrorName(result, &name);                      \
      fprintf(stderr, "%s: %s\n", #call, name);           \
      exit(1);                                            \
    }                                                     \
  } while (0)

enum { N = 10000 };

int main(int count, char **arguments) {
  if (count != 2) return 2;
  int version, devices;
  CUdevice device;
  CUcontext context;
  char name[128];
  CHECK(cuInit(0));
  CHECK(cuDriverGetVersion(&version));
  CHECK(cuDeviceGetCount(&devices));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDeviceGetName(name, sizeof name, device));
  printf("%d %d %s\n", version, devices, name);
  CHECK(cuCtxCreate_v2(&context, 0, device));
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoad(&module, arguments[1]));
  CHECK(cuModuleGetFunction(&function, module, "vecadd"));
  static float host[3][N];
  CUdeviceptr memory[3];
  for (int i = 0; i < 3; i++) CHECK(cuMemAlloc_v2(&memory[i], sizeof host[i]));
  for (int i = 0; i < N; i++) {
    host[0][i] = (float)i;
    host[1][i] = (float)(2 * i);
  }
  for (int i = 0; i < 2; i++) CHECK(cuMemcpyHtoD_v2(memory[i], host[i], sizeof host[i]));
  int n = N;
  void *parameters[] = {&memory[0], &memory[1], &memory[2], &n};
  CHECK(cuLaunchKernel(function, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoH_v2(host[2], memory[2], sizeof host[2]));
  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += host[2][i] != (float)(3 * i);
  printf("%d results, wrong %d, graphics %d\n", N, wrong, (int)cuGraphicsUnregisterResource(0));
  for (int i = 0; i < 3; i++) CHECK(cuMemFree_v2(memory[i]));
  CHECK(cuCtxDestroy_v2(context));
  return wrong != 0;
}
