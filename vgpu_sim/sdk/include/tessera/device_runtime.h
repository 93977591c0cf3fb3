/* The CUDA runtime for device code: launches of kernels, graphs, copies and fills from kernels, their
 * streams and events, and memory of the device's heap. The driver provides the functions. */
#ifndef TESSERA_DEVICE_RUNTIME_H
#define TESSERA_DEVICE_RUNTIME_H

extern "C" {
/* What `<<<>>>` in device code compiles to, from clang 22 on. */
__device__ void *cudaGetParameterBuffer(size_t alignment, size_t bytes);
__device__ cudaError_t cudaLaunchDevice(void *function, void *parameters, dim3 grid, dim3 block,
                                        unsigned shared, cudaStream_t stream);
/* Launches by explicit calls. Before clang 22, device code has no name of a kernel: `function` is a
 * kernel's address, as of asm("mov.u64 %0, NAME;"). */
__device__ void *cudaGetParameterBufferV2(void *function, dim3 grid, dim3 block, unsigned shared);
__device__ cudaError_t cudaLaunchDeviceV2(void *parameters, cudaStream_t stream);

/* Launches an uploaded graph from a kernel of such a graph; the stream is one of cudaStreamGraph... */
__device__ cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);

__device__ cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
__device__ cudaError_t cudaStreamDestroy(cudaStream_t stream);
__device__ cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
__device__ cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
__device__ cudaError_t cudaEventDestroy(cudaEvent_t event);
__device__ cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
__device__ cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
__device__ cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes,
                                       cudaMemcpyKind kind, cudaStream_t stream = 0);
__device__ cudaError_t cudaMemsetAsync(void *target, int value, size_t bytes, cudaStream_t stream = 0);
__device__ cudaError_t cudaMalloc(void **pointer, size_t bytes);
__device__ cudaError_t cudaFree(void *pointer);
__device__ cudaError_t cudaGetLastError(void);
__device__ cudaError_t cudaPeekAtLastError(void);
__device__ const char *cudaGetErrorName(cudaError_t error);
__device__ const char *cudaGetErrorString(cudaError_t error);
__device__ cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
}

template <class T>
__device__ static inline cudaError_t cudaMalloc(T **pointer, size_t bytes) {
  return ::cudaMalloc((void **)pointer, bytes);
}

/* Returns the graph of the kernel, if kernels can launch it, or NULL. */
__device__ static inline cudaGraphExec_t cudaGetCurrentGraphExec(void) {
  unsigned long long graph;
  asm("mov.u64 %0, %%current_graph_exec;" : "=l"(graph));
  return (cudaGraphExec_t)graph;
}

#define cudaStreamGraphTailLaunch ((cudaStream_t)0x0100000000000000)
#define cudaStreamGraphFireAndForget ((cudaStream_t)0x0200000000000000)
#define cudaStreamGraphFireAndForgetAsSibling ((cudaStream_t)0x0300000000000000)
#define cudaStreamTailLaunch ((cudaStream_t)3)
#define cudaStreamFireAndForget ((cudaStream_t)4)

#endif
