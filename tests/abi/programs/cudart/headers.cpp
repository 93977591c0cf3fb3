// Functions whose names or signatures differ between CUDA 12 and 13, compiled with Tessera's headers.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

static int failures;
#define HOLDS(condition) \
  do { \
    if (!(condition)) { \
      failures++; \
      std::printf("line %d: %s\n", __LINE__, #condition); \
    } \
  } while (0)
#define OK(call) HOLDS((call) == cudaSuccess)

static void properties() {
  struct {
    cudaDeviceProp prop;
    unsigned char after[4096]; // a library of another version would write here
  } room;
  std::memset(&room, 0x5a, sizeof room);
  OK(cudaGetDeviceProperties(&room.prop, 0));
  const cudaDeviceProp &prop = room.prop;
  int processors = 0, warp = 0, clock = 0, managed = 0, minor = 0;
  OK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  OK(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0));
  OK(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0));
  OK(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0));
  OK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  HOLDS(std::strstr(prop.name, "NVIDIA") == prop.name);
  HOLDS(prop.multiProcessorCount == processors && processors > 0);
  HOLDS(prop.warpSize == warp && warp == 32);
  HOLDS(prop.clockRate == clock && clock > 0);
  HOLDS(prop.managedMemory == managed && prop.minor == minor);
  for (unsigned char byte : room.after) HOLDS(byte == 0x5a);
}

static void managed() {
  int *memory = nullptr;
  OK(cudaMallocManaged(&memory, 1 << 16));
  OK(cudaMemPrefetchAsync(memory, 1 << 16, 0, nullptr));
  OK(cudaMemPrefetchAsync(memory, 1 << 16, cudaCpuDeviceId, nullptr));
  HOLDS(cudaMemPrefetchAsync(memory, 1 << 16, 77, nullptr) == cudaErrorInvalidDevice);
  OK(cudaMemAdvise(memory, 1 << 16, cudaMemAdviseSetPreferredLocation, 0));
  int preferred = 77;
  OK(cudaMemRangeGetAttribute(&preferred, sizeof preferred,
                              cudaMemRangeAttributePreferredLocation, memory, 1 << 16));
  HOLDS(preferred == 0);
  OK(cudaDeviceSynchronize());
  OK(cudaFree(memory));
}

static void graphs() {
  cudaGraph_t graph;
  cudaGraphNode_t first, second, from = nullptr, to = nullptr;
  std::size_t count = 0;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddEmptyNode(&first, graph, nullptr, 0));
  OK(cudaGraphAddEmptyNode(&second, graph, nullptr, 0));
  OK(cudaGraphAddDependencies(graph, &first, &second, 1));
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, &count));
  HOLDS(count == 1);
  OK(cudaGraphGetEdges(graph, &from, &to, &count));
  HOLDS(from == first && to == second);
  OK(cudaGraphNodeGetDependencies(second, &from, &count));
  HOLDS(count == 1 && from == first);
  OK(cudaGraphNodeGetDependentNodes(first, &to, &count));
  HOLDS(count == 1 && to == second);
  OK(cudaGraphRemoveDependencies(graph, &first, &second, 1));
  OK(cudaGraphDestroy(graph));
}

static void streams() {
  cudaStream_t stream;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaStreamGetCaptureInfo(stream, &status, &id));
  HOLDS(status == cudaStreamCaptureStatusActive && id != 0);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
}

int main() {
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  HOLDS(version == CUDART_VERSION);
  properties();
  managed();
  graphs();
  streams();
  OK(cudaGetLastError() == cudaErrorInvalidDevice ? cudaSuccess : cudaErrorUnknown);
  std::printf("failures %d\n", failures);
  return failures != 0;
}
