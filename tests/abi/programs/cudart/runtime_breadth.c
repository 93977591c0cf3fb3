/* Pools, managed memory, shapes, callbacks, graphs and per-thread streams through the runtime.
 * Argument 1 is an image with the kernel `scale` and the variable `bias`. */
#include <string.h>

#include "runtime_image.h"

enum { N = 256 };
static const struct dim3 one = {1, 1, 1}, row = {N, 1, 1};

/* Whether data[i] == factor * i + added for all i. */
static int holds_line(const float *data, float factor, float added) {
  float host[N];
  OK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDefault));
  for (int i = 0; i < N; i++)
    if (host[i] != factor * (float)i + added) return 0;
  return 1;
}

static void set_line(float *data) {
  float host[N];
  for (int i = 0; i < N; i++) host[i] = (float)i;
  OK(cudaMemcpy(data, host, sizeof host, cudaMemcpyDefault));
}

static void pools(void) {
  cudaMemPool_t pool;
  cudaStream_t stream;
  float *data, factor = 2;
  unsigned long long used = 1;
  int n = N;
  OK(cudaStreamCreateWithFlags(&stream, 1));
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaMallocAsync((void **)&data, N * sizeof *data, stream));
  OK(cudaStreamSynchronize(stream));
  set_line(data);
  void *arguments[] = {&data, &factor, &n};
  OK(cudaLaunchKernel(&scale_stub, one, row, arguments, 0, stream));
  OK(cudaStreamSynchronize(stream));
  HOLDS(holds_line(data, 2, 0));
  OK(cudaFreeAsync(data, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolGetAttribute(pool, 7, &used)); /* cudaMemPoolAttrUsedMemCurrent */
  HOLDS(used == 0);
  OK(cudaMemPoolTrimTo(pool, 0));
  OK(cudaStreamDestroy(stream));
}

static void managed(void) {
  float *data, factor = 3;
  int n = N;
  struct cudaPointerAttributes attributes;
  OK(cudaMallocManaged((void **)&data, N * sizeof *data, 1));
  for (int i = 0; i < N; i++) data[i] = (float)i;
  void *arguments[] = {&data, &factor, &n};
  OK(cudaLaunchKernel(&scale_stub, one, row, arguments, 0, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(data[255] == 765);
  OK(cudaPointerGetAttributes(&attributes, data));
  HOLDS(attributes.type == cudaMemoryTypeManaged);
  OK(cudaFree(data));
}

static void shapes(void) {
  unsigned char host[6][10], back[6][10];
  void *rectangle;
  size_t pitch;
  for (int i = 0; i < 60; i++) host[i / 10][i % 10] = (unsigned char)i;
  OK(cudaMallocPitch(&rectangle, &pitch, 10, 6));
  HOLDS(pitch >= 10);
  OK(cudaMemcpy2D(rectangle, pitch, host, 10, 10, 6, cudaMemcpyHostToDevice));
  OK(cudaMemset2D((char *)rectangle + pitch, pitch, 0xee, 4, 2));
  OK(cudaMemcpy2D(back, 10, rectangle, pitch, 10, 6, cudaMemcpyDeviceToHost));
  HOLDS(back[0][3] == 3 && back[1][3] == 0xee && back[2][0] == 0xee && back[2][4] == 24 && back[5][9] == 59);
  GIVES(12, cudaMemcpy2D(rectangle, 4, host, 10, 10, 6, cudaMemcpyHostToDevice));
  OK(cudaFree(rectangle));

  struct cudaPitchedPtr box;
  const struct cudaExtent extent = {8, 3, 2}, part = {5, 2, 2};
  unsigned char cube[2][3][8];
  OK(cudaMalloc3D(&box, extent));
  OK(cudaMemset3D(box, 1, extent));
  OK(cudaMemset3D(box, 7, part));
  const struct cudaMemcpy3DParms copy = {
      .srcPtr = box, .dstPtr = {cube, 8, 8, 3}, .extent = extent, .kind = cudaMemcpyDeviceToHost};
  OK(cudaMemcpy3D(&copy));
  HOLDS(cube[0][0][4] == 7 && cube[0][0][5] == 1 && cube[1][1][0] == 7 && cube[1][2][0] == 1);
  OK(cudaFree(box.ptr));
}

static int called;
static void on_host(void *argument) { called += *(int *)argument; }
static void on_stream(cudaStream_t stream, int status, void *argument) {
  (void)stream;
  if (status == 0) called += *(int *)argument;
}

static void callbacks(void) {
  int ten = 10, hundred = 100;
  OK(cudaLaunchHostFunc(NULL, on_host, &ten));
  OK(cudaStreamAddCallback(NULL, on_stream, &hundred, 0));
  OK(cudaDeviceSynchronize());
  HOLDS(called == 110);
}

static void graphs(void) {
  float *data, host[N], factor = 2;
  int n = N;
  unsigned *five, zero = 0;
  size_t nodes = 0;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t fill, set, scale;
  OK(cudaMalloc((void **)&data, sizeof host));
  OK(cudaHostAlloc((void **)&five, sizeof *five, 0));
  *five = 5;
  for (int i = 0; i < N; i++) host[i] = (float)i;
  void *arguments[] = {&data, &factor, &n};
  struct cudaKernelNodeParams kernel = {&scale_stub, one, row, 0, arguments, NULL};
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddMemcpyNode1D(&fill, graph, NULL, 0, data, host, sizeof host, cudaMemcpyHostToDevice));
  OK(cudaGraphAddMemcpyNodeToSymbol(&set, graph, &fill, 1, &bias, five, 4, 0, cudaMemcpyHostToDevice));
  OK(cudaGraphAddKernelNode(&scale, graph, &set, 1, &kernel));
  struct cudaKernelNodeParams read;
  OK(cudaGraphKernelNodeGetParams(scale, &read));
  HOLDS(read.func == &scale_stub && read.blockDim.x == N);
  OK(cudaGraphGetNodes(graph, NULL, &nodes));
  HOLDS(nodes == 3);
  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(holds_line(data, 2, 5));
  factor = 4;
  OK(cudaGraphExecKernelNodeSetParams(executable, scale, &kernel));
  OK(cudaGraphLaunch(executable, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(holds_line(data, 4, 5));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));

  /* the same by capture */
  cudaStream_t stream;
  OK(cudaMemcpyToSymbol(&bias, &zero, 4, 0, cudaMemcpyHostToDevice));
  OK(cudaStreamCreateWithFlags(&stream, 1));
  OK(cudaStreamBeginCapture(stream, 0));
  OK(cudaMemcpyAsync(data, host, sizeof host, cudaMemcpyHostToDevice, stream));
  OK(cudaLaunchKernel(&scale_stub, one, row, arguments, 0, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(executable, stream));
  OK(cudaStreamSynchronize(stream));
  HOLDS(holds_line(data, 4, 0));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
  OK(cudaFreeHost(five));
  OK(cudaFree(data));
}

/* A graph node whose type is in its parameters. */
static void any_node(void) {
  struct {
    int type, reserved[3];
    union {
      char bytes[232];
      struct cudaKernelNodeParams kernel;
    };
    long long end;
  } parameters;
  float *data, factor = 2;
  int n = N;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t node;
  memset(&parameters, 0, sizeof parameters);
  OK(cudaMalloc((void **)&data, N * sizeof *data));
  set_line(data);
  void *arguments[] = {&data, &factor, &n};
  parameters.kernel = (struct cudaKernelNodeParams){&scale_stub, one, row, 0, arguments, NULL};
  OK(cudaGraphCreate(&graph, 0));
#if TSR_CUDART >= 13
  OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &parameters));
#else
  OK(cudaGraphAddNode(&node, graph, NULL, 0, &parameters));
#endif
  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(holds_line(data, 2, 0));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(data));
}

static void per_thread(void) {
  float *data, host[N], factor = 6;
  int n = N;
  for (int i = 0; i < N; i++) host[i] = (float)i;
  OK(cudaMalloc((void **)&data, sizeof host));
  void *arguments[] = {&data, &factor, &n};
  OK(cudaMemcpy_ptds(data, host, sizeof host, cudaMemcpyHostToDevice));
  OK(cudaLaunchKernel_ptsz(&scale_stub, one, row, arguments, 0, NULL));
  OK(cudaMemcpyAsync_ptsz(host, data, sizeof host, cudaMemcpyDeviceToHost, NULL));
  OK(cudaStreamSynchronize_ptsz(NULL));
  HOLDS(host[255] == 1530);
  OK(cudaFree(data));
}

int main(int count, char **paths) {
  if (count != 2) return 2;
  register_image(paths[1]);
  pools();
  managed();
  shapes();
  callbacks();
  graphs();
  any_node();
  per_thread();
  OK(cudaGetLastError() == 12 ? 0 : 1);
  printf("failures %d\n", failures);
  return failures != 0;
}
