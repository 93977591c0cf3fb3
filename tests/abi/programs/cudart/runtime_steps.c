/* The runtime as a compiler's generated code and a program use it. Argument 1 is an image with the
 * kernels `scale` and `fault` and the variable `bias`. */
#include <pthread.h>
#include <string.h>

#include "devices/device_prop.h"
#include "runtime_checked.h"

static struct wrapper wrapper = {0x466243b1, 1, NULL, NULL};
static char scale_stub, fault_stub, absent_stub; /* their addresses stand for the kernels */
static int bias;
enum { N = 1000 };

static void registered(const char *path) {
  wrapper.data = read_image(path);
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &scale_stub, &scale_stub, "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFunction(handle, &fault_stub, &fault_stub, "fault", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFunction(handle, &absent_stub, &absent_stub, "absent", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterVar(handle, (char *)&bias, (char *)&bias, "bias", 0, sizeof bias, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
}

static void devices(void) {
  int count, device = -1, value, driver, runtime;
  OK(cudaDriverGetVersion(&driver));
  OK(cudaRuntimeGetVersion(&runtime));
  HOLDS(runtime / 1000 == TSR_CUDART && driver >= 12000);
  OK(cudaGetDeviceCount(&count));
  OK(cudaGetDevice(&device));
  HOLDS(count == 1 && device == 0);
  struct cudaDeviceProp prop;
  memset(&prop, 0xff, sizeof prop);
  OK(cudaGetDeviceProperties(&prop, 0));
  HOLDS(strncmp(prop.name, "NVIDIA H100", 11) == 0 && prop.major == 9 && prop.minor == 0);
  HOLDS(prop.warpSize == 32 && prop.maxThreadsDim[2] == 64 && prop.totalGlobalMem > 1u << 30);
  OK(cudaDeviceGetAttribute(&value, 16, 0));
  HOLDS(prop.multiProcessorCount == value);
  OK(cudaDeviceGetAttribute(&value, 97, 0));
  HOLDS(prop.sharedMemPerBlockOptin == (size_t)value);
#if TSR_CUDART < 13 /* the symbol of CUDA 11's structure writes no later member */
  HOLDS(prop.hostRegisterSupported == -1);
#endif
  GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, 1));
  GIVES(cudaErrorInvalidDevice, cudaSetDevice(1));
  GIVES(cudaErrorInvalidDevice, cudaGetLastError());
  GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
  GIVES(cudaErrorInvalidDevice, cudaGetLastError());
}

static void launches(void) {
  float *data, host[N], factor = 3;
  int n = N, one = 1, read = 0;
  size_t bytes;
  void *address;
  OK(cudaMalloc((void **)&data, sizeof host));
  for (int i = 0; i < N; i++) host[i] = (float)i;
  OK(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice));
  OK(cudaMemcpyToSymbol(&bias, &one, sizeof one, 0, cudaMemcpyHostToDevice));
  OK(cudaMemcpyFromSymbol(&read, &bias, sizeof read, 0, cudaMemcpyDeviceToHost));
  OK(cudaGetSymbolSize(&bytes, &bias));
  OK(cudaGetSymbolAddress(&address, &bias));
  HOLDS(read == 1 && bytes == 4 && address);
  GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(&bias, &one, 4, 1, cudaMemcpyHostToDevice));
  GIVES(cudaErrorInvalidSymbol, cudaGetSymbolSize(&bytes, &n));

  /* what <<<grid, block, 0, stream>>> becomes */
  const struct dim3 grid = {4, 1, 1}, block = {256, 1, 1};
  struct dim3 popped_grid, popped_block;
  size_t shared;
  void *stream;
  HOLDS(__cudaPushCallConfiguration(grid, block, 0, NULL) == 0);
  OK(__cudaPopCallConfiguration(&popped_grid, &popped_block, &shared, &stream));
  GIVES(cudaErrorMissingConfiguration,
        __cudaPopCallConfiguration(&popped_grid, &popped_block, &shared, &stream));
  void *arguments[] = {&data, &factor, &n};
  OK(cudaLaunchKernel(&scale_stub, popped_grid, popped_block, arguments, shared, stream));
  cudaLaunchConfig_t config = {grid, block, 0, NULL, NULL, 0};
  OK(cudaLaunchKernelExC(&config, &scale_stub, arguments));
  cudaKernel_t kernel;
  OK(cudaGetKernel(&kernel, &scale_stub));
  OK(cudaLaunchKernel(kernel, grid, block, arguments, 0, NULL));
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += host[i] != 27 * (float)i + 13;
  HOLDS(wrong == 0);

  GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&n, grid, block, arguments, 0, NULL));
  GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&absent_stub, grid, block, arguments, 0, NULL));
  const struct dim3 none = {0, 1, 1}, wide = {1, 65536, 1}, large = {2048, 1, 1}, deep = {1, 1, 65};
  GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel(&scale_stub, none, block, arguments, 0, NULL));
  GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel(&scale_stub, wide, block, arguments, 0, NULL));
  GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel(&scale_stub, grid, large, arguments, 0, NULL));
  GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel(&scale_stub, grid, deep, arguments, 0, NULL));

  struct cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, &scale_stub));
  HOLDS(attributes.maxThreadsPerBlock > 0 && attributes.numRegs > 0);
  OK(cudaFuncSetAttribute(&scale_stub, 8, 65536));
  OK(cudaFuncGetAttributes(&attributes, &scale_stub));
  HOLDS(attributes.maxDynamicSharedSizeBytes == 65536);
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &scale_stub, 256, 0));
  HOLDS(blocks > 0);
  OK(cudaFree(data));
}

static void memory(void) {
  void *pointer, *pinned;
  int host = 0;
  float milliseconds = -1;
  size_t left, total;
  struct cudaPointerAttributes attributes;
  OK(cudaMalloc(&pointer, 0));
  HOLDS(!pointer);
  OK(cudaFree(NULL));
  OK(cudaMemGetInfo(&left, &total));
  HOLDS(left <= total);
  OK(cudaMalloc(&pointer, 4096));
  OK(cudaHostAlloc(&pinned, 4096, 0));
  OK(cudaPointerGetAttributes(&attributes, pointer));
  HOLDS(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == pointer && !attributes.hostPointer);
  OK(cudaPointerGetAttributes(&attributes, pinned));
  HOLDS(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned && attributes.device == 0);
  OK(cudaPointerGetAttributes(&attributes, &host));
  HOLDS(attributes.type == cudaMemoryTypeUnregistered && !attributes.devicePointer);

  cudaStream_t stream;
  cudaEvent_t start, end;
  OK(cudaStreamCreateWithFlags(&stream, 1));
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventRecord(start, stream));
  OK(cudaMemsetAsync(pointer, 0x55, 4096, stream));
  OK(cudaMemcpyAsync(pinned, pointer, 4096, cudaMemcpyDeviceToHost, stream));
  OK(cudaEventRecord(end, stream));
  OK(cudaEventSynchronize(end));
  OK(cudaStreamQuery(stream));
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  HOLDS(milliseconds >= 0 && ((unsigned char *)pinned)[4095] == 0x55);
  OK(cudaMemset(pointer, 0, 4096));
  OK(cudaMemcpy(&host, pointer, 4, cudaMemcpyDefault));
  HOLDS(host == 0);
  GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(&host, pointer, 4, 5));
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(end));
  OK(cudaStreamDestroy(stream));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(pointer));
}

static void errors(void) {
  OK(cudaGetLastError() * 0);
  GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 1));
  OK(cudaDeviceSynchronize());
  GIVES(cudaErrorInvalidValue, cudaPeekAtLastError());
  GIVES(cudaErrorInvalidValue, cudaGetLastError());
  OK(cudaGetLastError());
  HOLDS(strcmp(cudaGetErrorName(2), "cudaErrorMemoryAllocation") == 0);
  HOLDS(strcmp(cudaGetErrorString(0), "no error") == 0);
  HOLDS(strcmp(cudaGetErrorName(12345), "unrecognized error code") == 0);
}

static void driver(void) {
  int (*get_version)(int *) = NULL;
  int status = -1, version = 0;
  void *address;
  OK(cudaGetDriverEntryPointByVersion("cuDriverGetVersion", &address, 12000, 0, &status));
  memcpy(&get_version, &address, sizeof get_version);
  HOLDS(status == 0 && get_version && get_version(&version) == 0 && version >= 12000);
  OK(cudaGetDriverEntryPointByVersion("cuAbsent", &address, 12000, 0, &status));
  HOLDS(status == 1 && !address);
  GIVES(cudaErrorSymbolNotFound, cudaGetDriverEntryPointByVersion("cuAbsent", &address, 12000, 0, NULL));
  const struct CUuuid id = {{0}};
  const void *table = &id;
  GIVES(cudaErrorSymbolNotFound, cudaGetExportTable(&table, &id));
  HOLDS(!table);
}

/* A launch that the runtime has to drop is an error. */
static void nested(void) {
  struct dim3 one = {1, 1, 1}, grid;
  size_t shared;
  void *stream;
  int kept = 0;
  while (kept < 1000 && __cudaPushCallConfiguration(one, one, 0, NULL) == 0) kept++;
  GIVES((cudaError_t)701, cudaGetLastError());
  for (; kept > 0; kept--) OK(__cudaPopCallConfiguration(&grid, &one, &shared, &stream));
}

static void *reset(void *unused) {
  OK(cudaDeviceReset());
  return unused;
}

/* An error of a kernel stays, until the device is reset; then everything works again. */
static void sticky(void) {
  const struct dim3 one = {1, 1, 1};
  void *pointer;
  OK(cudaLaunchKernel(&fault_stub, one, one, NULL, 0, NULL));
  GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  GIVES(cudaErrorIllegalAddress, cudaMalloc(&pointer, 16));
  GIVES(cudaErrorIllegalAddress, cudaGetLastError());
  GIVES(cudaErrorIllegalAddress, cudaGetLastError());
  pthread_t other; /* a reset is for all threads */
  HOLDS(pthread_create(&other, NULL, reset, NULL) == 0 && pthread_join(other, NULL) == 0);
  OK(cudaGetLastError());
  launches();
}

int main(int count, char **paths) {
  if (count != 2) return 2;
  registered(paths[1]);
  devices();
  launches();
  memory();
  errors();
  driver();
  nested();
  sticky();
  printf("failures %d\n", failures);
  return failures != 0;
}
