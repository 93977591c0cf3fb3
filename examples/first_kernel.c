/* Runs saxpy.ptx through the driver API. Exit status: 0 verified, 1 wrong result or CUDA error.
 *
 *   gcc first_kernel.c -I"$CUDA_INCLUDE" -L"$(tessera libdir)" -lcuda -o first_kernel
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000
#define BLOCK 256

static void check(CUresult result, const char *what) {
  const char *name = "?";
  if (result == CUDA_SUCCESS) return;
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", what, name);
  exit(1);
}

int main(int argc, char **argv) {
  const char *image = argc > 1 ? argv[1] : "saxpy.ptx";
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction saxpy;
  CUdeviceptr x, y;
  float host_x[COUNT], host_y[COUNT], factor = 2;
  int count = COUNT;

  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuModuleLoad(&module, image), image);
  check(cuModuleGetFunction(&saxpy, module, "saxpy"), "cuModuleGetFunction");

  for (int i = 0; i < COUNT; i++) host_x[i] = (float)i, host_y[i] = 1;
  check(cuMemAlloc(&x, sizeof host_x), "cuMemAlloc");
  check(cuMemAlloc(&y, sizeof host_y), "cuMemAlloc");
  check(cuMemcpyHtoD(x, host_x, sizeof host_x), "cuMemcpyHtoD");
  check(cuMemcpyHtoD(y, host_y, sizeof host_y), "cuMemcpyHtoD");

  void *arguments[] = {&factor, &x, &y, &count};
  check(cuLaunchKernel(saxpy, (COUNT + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments,
                       NULL),
        "cuLaunchKernel");
  check(cuMemcpyDtoH(host_y, y, sizeof host_y), "cuMemcpyDtoH"); /* waits for the kernel */

  for (int i = 0; i < COUNT; i++) {
    if (host_y[i] != 2 * (float)i + 1) {
      fprintf(stderr, "element %d is %g\n", i, host_y[i]);
      return 1;
    }
  }
  printf("%d results verified\n", COUNT);
  return 0;
}
