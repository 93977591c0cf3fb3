/* A managed variable, registered and accessed as nvcc's code does it: through a pointer that
 * __cudaInitModule sets. */
#include "runtime_checked.h"

DECLARE(__cudaRegisterManagedVar);
DECLARE(__cudaInitModule);

static struct wrapper wrapper = {0x466243b1, 1, NULL, NULL};
static char scale_stub;
static unsigned *bias; /* nvcc makes the variable on the host a pointer */

int main(int argc, char **argv) {
  const struct dim3 one = {1, 1, 1};
  float *data, factor = 2;
  int n = 1;
  if (argc != 2) return 2;
  wrapper.data = read_image(argv[1]);
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &scale_stub, &scale_stub, "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterManagedVar(handle, (void **)&bias, (char *)&bias, "bias", 0, sizeof *bias, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
  HOLDS(bias == NULL);
  HOLDS(__cudaInitModule(handle) != 0);
  HOLDS(bias && *bias == 40);
  if (!bias) return 1;
  *bias = 7;
  OK(cudaMallocManaged((void **)&data, sizeof *data, 1));
  *data = 3;
  void *arguments[] = {&data, &factor, &n};
  OK(cudaLaunchKernel(&scale_stub, one, one, arguments, 0, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(*data == 13); /* 2 * 3 + bias */
  __cudaUnregisterFatBinary(handle);
  printf("failures %d\n", failures);
  return failures != 0;
}
