/* A kernel that launches kernels: it squares as many numbers as it finds, and then has their sum
 * computed by the tail stream, which runs when everything else has ended.
 *
 *   tessera cc -o device_launch examples/device_launch.cu
 *   tessera run --board h100-80gb -- ./device_launch
 */
#include <stdio.h>

extern "C" __global__ void square(int *numbers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] *= numbers[i];
}

extern "C" __global__ void add_up(const int *numbers, int count, long long *sum) {
  *sum = 0;
  for (int i = 0; i < count; i++) *sum += numbers[i];
}

struct square_parameters {
  int *numbers;
  int count;
};
struct sum_parameters {
  const int *numbers;
  int count;
  long long *sum;
};

/* What a compiler with <<<>>> in device code writes for a launch. */
template <typename Parameters>
__device__ cudaError_t launch(void *kernel, dim3 grid, dim3 block, cudaStream_t stream,
                              Parameters parameters) {
  void *buffer = cudaGetParameterBufferV2(kernel, grid, block, 0);
  if (buffer) *(Parameters *)buffer = parameters;
  return cudaLaunchDeviceV2(buffer, stream);
}

__global__ void parent(int *numbers, const int *count, long long *sum, cudaError_t *errors) {
  void *first, *last;
  asm("mov.u64 %0, square;" : "=l"(first));
  asm("mov.u64 %0, add_up;" : "=l"(last));
  const int n = *count;
  errors[0] = launch(last, 1, 1, cudaStreamTailLaunch, sum_parameters{numbers, n, sum});
  errors[1] = launch(first, (n + 127) / 128, 128, 0, square_parameters{numbers, n});
}

int main(void) {
  enum { COUNT = 1000 };
  int *numbers, *count;
  long long *sum;
  cudaError_t *errors;
  cudaMallocManaged(&numbers, COUNT * sizeof *numbers);
  cudaMallocManaged(&count, sizeof *count);
  cudaMallocManaged(&sum, sizeof *sum);
  cudaMallocManaged(&errors, 2 * sizeof *errors);
  for (int i = 0; i < COUNT; i++) numbers[i] = i;
  *count = COUNT;
  parent<<<1, 1>>>(numbers, count, sum, errors);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error || errors[0] || errors[1]) {
    fprintf(stderr, "failed: %d, %d, %d\n", error, errors[0], errors[1]);
    return 1;
  }
  printf("the sum of the squares below %d is %lld\n", COUNT, *sum);
  return *sum == 332833500 ? 0 : 1;
}
