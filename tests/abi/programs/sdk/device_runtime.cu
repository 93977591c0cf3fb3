// The CUDA runtime in device code: streams, events, copies, fills, memory and launches.
#include <cstring>

#include "check.h"

enum { ADDED, COPIED, FILLED, READ_BACK, COUNT, ERRORS };

__global__ void add(int *place, int number) { atomicAdd(place, number); }

__global__ void parent(int *found) {
  int *errors = found + ERRORS;
  cudaStream_t stream;
  cudaEvent_t event;
  *errors |= cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  *errors |= cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
#if __clang_major__ >= 22
  add<<<1, 4, 0, stream>>>(found + ADDED, 3);
  add<<<2, 1>>>(found + ADDED, 4);
#else
  void *function;
  asm("mov.u64 %0, _Z3addPii;" : "=l"(function));
  struct {
    int *place;
    int number;
  } parameters = {found + ADDED, 20};
  void *buffer = cudaGetParameterBuffer(8, sizeof parameters);
  memcpy(buffer, &parameters, sizeof parameters);
  *errors |= cudaLaunchDevice(function, buffer, 1, 1, 0, stream);
#endif
  *errors |= cudaEventRecord(event, stream);
  *errors |= cudaStreamWaitEvent(stream, event);
  *errors |= cudaMemsetAsync(found + FILLED, 1, sizeof(int), stream);
  *errors |= cudaMemcpyAsync(found + COPIED, found + FILLED, sizeof(int),
                             cudaMemcpyDeviceToDevice, stream);
  *errors |= cudaEventDestroy(event) | cudaStreamDestroy(stream);
  int *typed;
  void *plain;
  *errors |= cudaMalloc(&typed, 16) | cudaMalloc(&plain, 16) | ((void *)typed == plain);
  typed[3] = 5;
  found[READ_BACK] = typed[3];
  *errors |= cudaFree(typed) | cudaFree(plain);
  *errors |= cudaDeviceGetAttribute(found + COUNT, cudaDevAttrMultiProcessorCount, 0);
  *errors |= cudaPeekAtLastError() | cudaGetLastError();
}

int main() {
  int count;
  CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  Device<int> found(ERRORS + 1);
  parent<<<1, 1>>>(found);
  const std::vector<int> expected = {20, 0x01010101, 0x01010101, 5, count, 0};
  return report("device runtime", wrong(found.read(), [&](size_t i) { return expected[i]; }));
}
