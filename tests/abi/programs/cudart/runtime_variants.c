/* The variants for per-thread default streams. In most checks the thread's default stream captures:
 * a variant that used the legacy stream would add no node. Argument 1 is an image with the kernel
 * `scale` and the variable `bias`. */
#include <stdatomic.h>
#include <string.h>

#include "runtime_copies.h"
#include "runtime_image.h"

DECLARE(cudaEventRecord_ptsz);
DECLARE(cudaEventRecordWithFlags_ptsz);
DECLARE(cudaFreeAsync_ptsz);
DECLARE(cudaGetDriverEntryPoint);
DECLARE(cudaGetDriverEntryPoint_ptsz);
DECLARE(cudaGetDriverEntryPointByVersion_ptsz);
DECLARE(cudaGraphInstantiateWithParams_ptsz);
DECLARE(cudaGraphLaunch_ptsz);
DECLARE(cudaGraphUpload_ptsz);
DECLARE(cudaLaunchCooperativeKernel_ptsz);
DECLARE(cudaLaunchHostFunc_ptsz);
DECLARE(__cudaLaunchKernel_ptsz);
DECLARE(cudaLaunchKernelExC_ptsz);
DECLARE(cudaMallocAsync_ptsz);
DECLARE(cudaMallocFromPoolAsync_ptsz);
DECLARE(cudaMemcpy2D_ptds);
DECLARE(cudaMemcpy2DAsync_ptsz);
DECLARE(cudaMemcpy3D_ptds);
DECLARE(cudaMemcpy3DAsync_ptsz);
DECLARE(cudaMemcpy3DBatchAsync_ptsz);
DECLARE(cudaMemcpy3DPeer_ptds);
DECLARE(cudaMemcpy3DPeerAsync_ptsz);
DECLARE(cudaMemcpyBatchAsync_ptsz);
DECLARE(cudaMemcpyFromSymbol_ptds);
DECLARE(cudaMemcpyFromSymbolAsync_ptsz);
DECLARE(cudaMemcpyToSymbol_ptds);
DECLARE(cudaMemcpyToSymbolAsync_ptsz);
DECLARE(cudaMemPrefetchAsync_ptsz);
DECLARE(cudaMemset2D_ptds);
DECLARE(cudaMemset2DAsync_ptsz);
DECLARE(cudaMemset3D_ptds);
DECLARE(cudaMemset3DAsync_ptsz);
DECLARE(cudaMemset_ptds);
DECLARE(cudaMemsetAsync_ptsz);
DECLARE(cudaStreamAddCallback_ptsz);
DECLARE(cudaStreamAttachMemAsync);
DECLARE(cudaStreamAttachMemAsync_ptsz);
DECLARE(cudaStreamBeginCapture_ptsz);
DECLARE(cudaStreamBeginCaptureToGraph_ptsz);
DECLARE(cudaStreamCopyAttributes_ptsz);
DECLARE(cudaStreamEndCapture_ptsz);
DECLARE(cudaStreamGetAttribute);
DECLARE(cudaStreamGetAttribute_ptsz);
DECLARE(cudaStreamGetCaptureInfo_ptsz);
DECLARE(cudaStreamGetDevice_ptsz);
DECLARE(cudaStreamGetFlags_ptsz);
DECLARE(cudaStreamGetId);
DECLARE(cudaStreamGetId_ptsz);
DECLARE(cudaStreamGetPriority_ptsz);
DECLARE(cudaStreamIsCapturing);
DECLARE(cudaStreamIsCapturing_ptsz);
DECLARE(cudaStreamQuery_ptsz);
DECLARE(cudaStreamSetAttribute_ptsz);
DECLARE(cudaStreamUpdateCaptureDependencies_ptsz);
DECLARE(cudaStreamWaitEvent_ptsz);
DECLARE(cudaGraphAddEmptyNode);
DECLARE(cudaGraphGetRootNodes);
#if TSR_CUDART >= 13
DECLARE(cudaLaunchHostFunc_v2_ptsz);
DECLARE(cudaMemcpy3DWithAttributesAsync_ptsz);
DECLARE(cudaMemcpyWithAttributesAsync_ptsz);
DECLARE(cudaMemPrefetchBatchAsync_ptsz);
DECLARE(cudaMemDiscardBatchAsync_ptsz);
DECLARE(cudaMemDiscardAndPrefetchBatchAsync_ptsz);
#else
DECLARE(cudaMemPrefetchAsync_v2_ptsz);
DECLARE(cudaStreamGetCaptureInfo_v2_ptsz);
DECLARE(cudaStreamGetCaptureInfo_v3_ptsz);
DECLARE(cudaStreamUpdateCaptureDependencies_v2_ptsz);
#endif

enum { N = 256, RELAXED = 2, UNSUPPORTED_IN_CAPTURE = 900, INVALIDATED = 901, DEVICE = 1 };
static unsigned char *a, *b, *pinned, *managed;

/* How many nodes the capture of the thread's default stream has made. */
static size_t end_capture(void) {
  cudaGraph_t graph = NULL;
  size_t nodes = 0;
  OK(cudaStreamEndCapture_ptsz(NULL, &graph));
  OK(cudaGraphGetNodes(graph, NULL, &nodes));
  OK(cudaGraphDestroy(graph));
  return nodes;
}

#define ADDS_A_NODE(call)                               \
  do {                                                  \
    OK(cudaStreamBeginCapture_ptsz(NULL, RELAXED));     \
    OK(call);                                           \
    HOLDS(end_capture() == 1);                          \
  } while (0)

/* For calls that no capture may contain: in another stream than the capturing one they succeed. */
#define ENDS_THE_CAPTURE(call)                                  \
  do {                                                          \
    cudaGraph_t none = NULL;                                    \
    OK(cudaStreamBeginCapture_ptsz(NULL, RELAXED));             \
    GIVES(UNSUPPORTED_IN_CAPTURE, call);                        \
    GIVES(INVALIDATED, cudaStreamEndCapture_ptsz(NULL, &none)); \
    cudaGetLastError();                                         \
  } while (0)

static void do_nothing(void *unused) { (void)unused; }

static void copies(void) {
  const struct cudaExtent extent = {8, 2, 1};
  const struct cudaPitchedPtr to = {a, 16, 16, 2}, from = {b, 16, 16, 2};
  const struct cudaMemcpy3DParms box = {
      .srcPtr = from, .dstPtr = to, .extent = extent, .kind = cudaMemcpyDeviceToDevice};
  const struct cudaMemcpy3DPeerParms peer = {.srcPtr = from, .dstPtr = to, .extent = extent};
  ADDS_A_NODE(cudaMemcpyAsync_ptsz(a, b, 16, cudaMemcpyDeviceToDevice, NULL));
  ADDS_A_NODE(cudaMemcpy2DAsync_ptsz(a, 16, b, 16, 8, 2, cudaMemcpyDeviceToDevice, NULL));
  ADDS_A_NODE(cudaMemcpy3DAsync_ptsz(&box, NULL));
  ADDS_A_NODE(cudaMemcpy3DPeerAsync_ptsz(&peer, NULL));
  ADDS_A_NODE(cudaMemcpyToSymbolAsync_ptsz(&bias, pinned, 4, 0, cudaMemcpyHostToDevice, NULL));
  ADDS_A_NODE(cudaMemcpyFromSymbolAsync_ptsz(pinned, &bias, 4, 0, cudaMemcpyDeviceToHost, NULL));
  ADDS_A_NODE(cudaMemsetAsync_ptsz(a, 1, 16, NULL));
  ADDS_A_NODE(cudaMemset2DAsync_ptsz(a, 16, 1, 8, 2, NULL));
  ADDS_A_NODE(cudaMemset3DAsync_ptsz(to, 1, extent, NULL));

  void *targets[] = {a}, *sources[] = {b};
  size_t sizes[] = {16}, first[] = {0};
  struct copy_attributes attributes = {.order = 1};
  struct copy_region region = {{1, {b, 16, 2, {0, 0}}}, {1, {a, 16, 2, {0, 0}}}, {8, 2, 1}, 1, 0};
#if TSR_CUDART >= 13
  ADDS_A_NODE(cudaMemcpyBatchAsync_ptsz(targets, (const void *const *)sources, sizes, 1, &attributes,
                                        first, 1, NULL));
  ADDS_A_NODE(cudaMemcpy3DBatchAsync_ptsz(1, &region, 0, NULL));
  ADDS_A_NODE(cudaMemcpyWithAttributesAsync_ptsz(a, b, 16, &attributes, NULL));
  ADDS_A_NODE(cudaMemcpy3DWithAttributesAsync_ptsz(&region, 0, NULL));
#else
  size_t failed = 0;
  ADDS_A_NODE(
      cudaMemcpyBatchAsync_ptsz(targets, sources, sizes, 1, &attributes, first, 1, &failed, NULL));
  ADDS_A_NODE(cudaMemcpy3DBatchAsync_ptsz(1, &region, &failed, 0, NULL));
#endif
}

/* Copies that wait: the values arrive, in the order of the thread's stream. */
static void waiting_copies(void) {
  unsigned char host[32], back[32] = {0};
  unsigned seven = 7, read = 0;
  for (int i = 0; i < 32; i++) host[i] = (unsigned char)(i + 1);
  const struct cudaPitchedPtr there = {a, 16, 16, 2};
  OK(cudaMemset_ptds(a, 9, 32));
  OK(cudaMemcpy_ptds(back, a, 32, cudaMemcpyDeviceToHost));
  HOLDS(back[0] == 9 && back[31] == 9);
  OK(cudaMemcpy2D_ptds(a, 16, host, 16, 8, 2, cudaMemcpyHostToDevice));
  OK(cudaMemset2D_ptds(a + 8, 16, 5, 4, 2));
  OK(cudaMemset3D_ptds(there, 3, (struct cudaExtent){2, 1, 1}));
  const struct cudaMemcpy3DParms box = {.srcPtr = there,
                                        .dstPtr = {back, 16, 16, 2},
                                        .extent = {16, 2, 1},
                                        .kind = cudaMemcpyDeviceToHost};
  OK(cudaMemcpy3D_ptds(&box));
  HOLDS(back[0] == 3 && back[1] == 3 && back[2] == 3 && back[7] == 8);
  HOLDS(back[8] == 5 && back[11] == 5 && back[12] == 9 && back[16] == 17 && back[24] == 5);
  const struct cudaMemcpy3DPeerParms peer = {
      .srcPtr = there, .dstPtr = {b, 16, 16, 2}, .extent = {16, 2, 1}};
  OK(cudaMemcpy3DPeer_ptds(&peer));
  memset(back, 0, sizeof back);
  OK(cudaMemcpy(back, b, 32, cudaMemcpyDeviceToHost));
  HOLDS(back[0] == 3 && back[7] == 8 && back[24] == 5);
  OK(cudaMemcpyToSymbol_ptds(&bias, &seven, 4, 0, cudaMemcpyHostToDevice));
  OK(cudaMemcpyFromSymbol_ptds(&read, &bias, 4, 0, cudaMemcpyDeviceToHost));
  HOLDS(read == 7);
}

static void launches(void) {
  float factor = 2;
  int n = 4;
  void *arguments[] = {&a, &factor, &n};
  const struct dim3 one = {1, 1, 1}, four = {4, 1, 1};
  const cudaLaunchConfig_t config = {.gridDim = one, .blockDim = four};
  ADDS_A_NODE(cudaLaunchKernel_ptsz(&scale_stub, one, four, arguments, 0, NULL));
  ADDS_A_NODE(__cudaLaunchKernel_ptsz((cudaKernel_t)&scale_stub, one, four, arguments, 0, NULL));
  ADDS_A_NODE(cudaLaunchCooperativeKernel_ptsz(&scale_stub, one, four, arguments, 0, NULL));
  ADDS_A_NODE(cudaLaunchKernelExC_ptsz(&config, &scale_stub, arguments));
  ADDS_A_NODE(cudaLaunchHostFunc_ptsz(NULL, do_nothing, NULL));
#if TSR_CUDART >= 13
  ADDS_A_NODE(cudaLaunchHostFunc_v2_ptsz(NULL, do_nothing, NULL, 0));
#endif
}

static void memory(void) {
  cudaMemPool_t pool;
  void *made = NULL;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaMallocAsync_ptsz(&made, 64, NULL));
  ADDS_A_NODE(cudaMallocAsync_ptsz(&made, 64, NULL));
  OK(cudaStreamBeginCapture_ptsz(NULL, RELAXED));
  OK(cudaMallocFromPoolAsync_ptsz(&made, 64, pool, NULL));
  OK(cudaFreeAsync_ptsz(made, NULL));
  HOLDS(end_capture() == 2);

  const struct cudaMemLocation here = {DEVICE, 0};
#if TSR_CUDART >= 13
  void *list[] = {managed};
  size_t sizes[] = {4096}, first[] = {0};
  struct cudaMemLocation places[] = {here};
  ENDS_THE_CAPTURE(cudaMemPrefetchAsync_ptsz(managed, 4096, here, 0, NULL));
  ENDS_THE_CAPTURE(cudaMemPrefetchBatchAsync_ptsz(list, sizes, 1, places, first, 1, 0, NULL));
  ENDS_THE_CAPTURE(cudaMemDiscardBatchAsync_ptsz(list, sizes, 1, 0, NULL));
  ENDS_THE_CAPTURE(
      cudaMemDiscardAndPrefetchBatchAsync_ptsz(list, sizes, 1, places, first, 1, 0, NULL));
#else
  ENDS_THE_CAPTURE(cudaMemPrefetchAsync_ptsz(managed, 4096, 0, NULL));
  ENDS_THE_CAPTURE(cudaMemPrefetchAsync_v2_ptsz(managed, 4096, here, 0, NULL));
#endif
  GIVES(1, cudaStreamAttachMemAsync(NULL, managed, 0, 4)); /* not to the legacy stream */
  OK(cudaStreamAttachMemAsync_ptsz(NULL, managed, 0, 4));
}

static void captures(void) {
  cudaStream_t stream;
  cudaEvent_t there, back;
  cudaGraph_t graph;
  cudaGraphExec_t executable = NULL, made = NULL;
  cudaGraphNode_t node = NULL, root = NULL;
  int status = -1;
  unsigned long long id = 0;
  size_t count = 0;
  OK(cudaStreamCreateWithFlags(&stream, 1));
  OK(cudaEventCreate(&there));
  OK(cudaEventCreate(&back));
  for (int flags = 0; flags < 2; flags++) {
    OK(cudaStreamBeginCapture(stream, RELAXED));
    OK(cudaEventRecord(there, stream));
    OK(cudaStreamIsCapturing_ptsz(NULL, &status));
    HOLDS(status == 0);
    OK(cudaStreamWaitEvent_ptsz(NULL, there, 0));
    OK(cudaStreamIsCapturing_ptsz(NULL, &status));
    HOLDS(status == 1);
    OK(cudaMemsetAsync_ptsz(a, 1, 16, NULL));
    OK(flags ? cudaEventRecordWithFlags_ptsz(back, NULL, 0) : cudaEventRecord_ptsz(back, NULL));
    OK(cudaStreamWaitEvent(stream, back, 0));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &count));
    HOLDS(count == 1);
    if (flags) break;
    OK(cudaGraphDestroy(graph));
  }

  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  struct {
    unsigned long long flags;
    cudaStream_t upload;
    cudaGraphNode_t failed;
    int result;
  } parameters = {.result = 9};
  OK(cudaGraphInstantiateWithParams_ptsz(&made, graph, &parameters));
  HOLDS(made && parameters.result == 0);
  OK(cudaGraphUpload_ptsz(made, NULL));
  OK(cudaMemset(a, 0, 16));
  OK(cudaGraphLaunch_ptsz(made, NULL));
  OK(cudaMemcpy_ptds(pinned, a, 16, cudaMemcpyDeviceToHost));
  HOLDS(pinned[0] == 1 && pinned[15] == 1);
  ADDS_A_NODE(cudaGraphLaunch_ptsz(executable, NULL));
  OK(cudaGraphExecDestroy(made));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));

  /* a capture into a graph, behind a node that was added by hand */
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaStreamBeginCaptureToGraph_ptsz(NULL, graph, NULL, NULL, 0, RELAXED));
  OK(cudaGraphAddEmptyNode(&node, graph, NULL, 0));
#if TSR_CUDART >= 13
  cudaGraph_t captured = NULL;
  OK(cudaStreamGetCaptureInfo_ptsz(NULL, &status, &id, &captured, NULL, NULL, NULL));
  HOLDS(status == 1 && id != 0 && captured == graph);
  OK(cudaStreamUpdateCaptureDependencies_ptsz(NULL, &node, NULL, 1, 1));
#else
  cudaGraph_t captured = NULL, again = NULL;
  OK(cudaStreamGetCaptureInfo_ptsz(NULL, &status, &id));
  HOLDS(status == 1 && id != 0);
  OK(cudaStreamGetCaptureInfo_v2_ptsz(NULL, &status, &id, &captured, NULL, NULL));
  OK(cudaStreamGetCaptureInfo_v3_ptsz(NULL, &status, &id, &again, NULL, NULL, NULL));
  HOLDS(captured == graph && again == graph);
  OK(cudaStreamUpdateCaptureDependencies_v2_ptsz(NULL, NULL, NULL, 0, 1));
  OK(cudaStreamUpdateCaptureDependencies_ptsz(NULL, &node, 1, 1));
#endif
  OK(cudaMemsetAsync_ptsz(a, 1, 16, NULL));
  OK(cudaStreamEndCapture_ptsz(NULL, &graph));
  count = 1;
  OK(cudaGraphGetRootNodes(graph, &root, &count));
  HOLDS(count == 1 && root == node);
  OK(cudaGraphDestroy(graph));
  OK(cudaEventDestroy(there));
  OK(cudaEventDestroy(back));
  OK(cudaStreamDestroy(stream));
}

static atomic_int gate, called;
static void wait_for_gate(void *unused) {
  (void)unused;
  while (!atomic_load(&gate)) continue;
}
static void on_stream(cudaStream_t stream, int status, void *unused) {
  (void)stream, (void)unused;
  if (status == 0) atomic_fetch_add(&called, 1);
}

static void streams(void) {
  unsigned long long mine = 0, legacy = 0;
  unsigned flags = 9;
  int priority = 9, device = 9;
  long policy[8] = {0}, read[8] = {0}; /* a launch attribute has 64 bytes */
  void *plain = NULL, *variant = NULL, *versioned = NULL;
  int found = 9;
  cudaStream_t stream;
  OK(cudaStreamGetId(NULL, &legacy));
  OK(cudaStreamGetId_ptsz(NULL, &mine));
  HOLDS(mine != legacy);
  OK(cudaStreamGetId(cudaStreamPerThread, &legacy));
  HOLDS(mine == legacy);
  OK(cudaStreamGetFlags_ptsz(NULL, &flags));
  OK(cudaStreamGetPriority_ptsz(NULL, &priority));
  OK(cudaStreamGetDevice_ptsz(NULL, &device));
  HOLDS(flags == 0 && priority == 0 && device == 0);

  *(int *)policy = 2; /* cudaSyncPolicySpin */
  OK(cudaStreamSetAttribute_ptsz(NULL, 3, policy));
  OK(cudaStreamGetAttribute(cudaStreamPerThread, 3, read));
  HOLDS(*(int *)read == 2);
  memset(read, 0, sizeof read);
  OK(cudaStreamGetAttribute_ptsz(NULL, 3, read));
  HOLDS(*(int *)read == 2);
  OK(cudaStreamCreateWithFlags(&stream, 1));
  OK(cudaStreamCopyAttributes_ptsz(stream, NULL));
  memset(read, 0, sizeof read);
  OK(cudaStreamGetAttribute(stream, 3, read));
  HOLDS(*(int *)read == 2);
  OK(cudaStreamDestroy(stream));

  OK(cudaLaunchHostFunc(cudaStreamPerThread, wait_for_gate, NULL));
  OK(cudaStreamAddCallback_ptsz(NULL, on_stream, NULL, 0));
  GIVES(600, cudaStreamQuery_ptsz(NULL));
  HOLDS(atomic_load(&called) == 0);
  atomic_store(&gate, 1);
  OK(cudaStreamSynchronize_ptsz(NULL));
  HOLDS(atomic_load(&called) == 1);
  OK(cudaStreamQuery_ptsz(NULL));

  OK(cudaGetDriverEntryPoint("cuStreamQuery", &plain, 0, &found));
  OK(cudaGetDriverEntryPoint_ptsz("cuStreamQuery", &variant, 0, &found));
  OK(cudaGetDriverEntryPointByVersion_ptsz("cuStreamQuery", &versioned, 12000, 0, &found));
  HOLDS(plain && variant && plain != variant && versioned == variant && found == 0);
}

int main(int count, char **paths) {
  if (count != 2) return 2;
  register_image(paths[1]);
  OK(cudaMalloc((void **)&a, N));
  OK(cudaMalloc((void **)&b, N));
  OK(cudaHostAlloc((void **)&pinned, N, 0));
  OK(cudaMallocManaged((void **)&managed, 4096, 1));
  copies();
  waiting_copies();
  launches();
  memory();
  captures();
  streams();
  printf("failures %d\n", failures);
  return failures != 0;
}
