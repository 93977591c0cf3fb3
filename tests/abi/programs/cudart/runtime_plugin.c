/* A shared library that brings a kernel of its own: `scale`, in the image whose path is passed. */
#include "runtime_checked.h"

static struct wrapper wrapper = {0x466243b1, 1, NULL, NULL};
static char scale_stub;
static void **handle;

__attribute__((visibility("default"))) int scale_twice(const char *image) {
  const struct dim3 one = {1, 1, 1};
  float *data, host = 3, factor = 2;
  int n = 1;
  wrapper.data = read_image(image);
  handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &scale_stub, &scale_stub, "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(handle);
  OK(cudaMalloc((void **)&data, sizeof host));
  OK(cudaMemcpy(data, &host, sizeof host, cudaMemcpyHostToDevice));
  void *arguments[] = {&data, &factor, &n};
  for (int i = 0; i < 2; i++) OK(cudaLaunchKernel(&scale_stub, one, one, arguments, 0, NULL));
  OK(cudaMemcpy(&host, data, sizeof host, cudaMemcpyDeviceToHost));
  OK(cudaFree(data));
  HOLDS(host == 12);
  return failures;
}

__attribute__((destructor)) static void unloaded(void) {
  if (handle) __cudaUnregisterFatBinary(handle);
}
