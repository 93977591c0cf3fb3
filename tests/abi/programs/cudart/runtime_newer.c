/* Functions that came late: messages, capabilities, locations, copies with attributes, parameters of
 * nodes; and two old ones of version 12. Argument 1 is an image with the kernel `scale`, argument 2 a
 * file to write. */
#include <string.h>

#include "runtime_copies.h"

DECLARE(cudaDeviceFlushGPUDirectRDMAWrites);
DECLARE(cudaLibraryGetUnifiedFunction);
DECLARE(cudaLibraryLoadFromFile);
DECLARE(cudaLibraryUnload);
DECLARE(cudaGraphAddMemsetNode);
DECLARE(cudaGraphConditionalHandleCreate);
DECLARE(cudaHostRegister);
DECLARE(cudaHostUnregister);
DECLARE(cudaHostGetDevicePointer);
DECLARE(cudaHostGetFlags);
#if TSR_CUDART >= 13
DECLARE(cudaDeviceGetHostAtomicCapabilities);
DECLARE(cudaDeviceGetP2PAtomicCapabilities);
DECLARE(cudaLogsCurrent);
DECLARE(cudaLogsDumpToFile);
DECLARE(cudaLogsDumpToMemory);
DECLARE(cudaLogsRegisterCallback);
DECLARE(cudaLogsUnregisterCallback);
DECLARE(cudaMemGetLocationInfo);
DECLARE(cudaMemcpyWithAttributesAsync);
DECLARE(cudaMemcpy3DWithAttributesAsync);
DECLARE(cudaGraphNodeGetParams);
DECLARE(cudaGraphConditionalHandleCreate_v2);
DECLARE(cudaDeviceGetDevResource);
DECLARE(cudaDevSmResourceSplitByCount);
DECLARE(cudaDevResourceGenerateDesc);
DECLARE(cudaGreenCtxCreate);
DECLARE(cudaExecutionCtxDestroy);
DECLARE(cudaExecutionCtxGetDevResource);
DECLARE(cudaExecutionCtxRecordEvent);
DECLARE(cudaExecutionCtxWaitEvent);
DECLARE(cudaExecutionCtxStreamCreate);
DECLARE(cudaExecutionCtxSynchronize);
DECLARE(cudaStreamGetDevResource);
DECLARE(cudaDeviceGetExecutionCtx);
#else
DECLARE(cudaSetDoubleForDevice);
DECLARE(cudaSetDoubleForHost);
#endif

enum { INVALID = 1, INVALID_DEVICE = 101, INVALID_HANDLE = 400, NOT_FOUND = 500 };
static struct wrapper wrapper = {0x466243b1, 1, NULL, NULL};
static char scale_stub;

/* Memory of the program that a kernel writes. */
static void registered_memory(void) {
  float *host = aligned_alloc(4096, 8192), *there = NULL, factor = 3;
  unsigned flags = 0;
  int n = 16;
  const struct dim3 one = {1, 1, 1}, row = {16, 1, 1};
  for (int i = 0; i < 16; i++) host[i] = (float)i;
  GIVES(INVALID, cudaHostGetDevicePointer((void **)&there, host, 0));
  OK(cudaHostRegister(host, 8192, 2)); /* mapped */
  OK(cudaHostGetFlags(&flags, host));
  HOLDS(flags & 2);
  OK(cudaHostGetDevicePointer((void **)&there, host, 0));
  void *arguments[] = {&there, &factor, &n};
  OK(cudaLaunchKernel(&scale_stub, one, row, arguments, 0, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(host[15] == 45);
  GIVES(712, cudaHostRegister(host, 8192, 0)); /* registered already */
  OK(cudaHostUnregister(host));
  GIVES(713, cudaHostUnregister(host)); /* not registered */
  host[0] = 1;
  cudaGetLastError();
  free(host);
}

/* A body that runs once, because its handle is 1 when the graph is launched, or never. */
static void conditional(unsigned first) {
  struct {
    int type, reserved[3];
    union {
      char bytes[232];
      struct {
        cudaGraphConditionalHandle handle;
        int kind;
        unsigned size;
        cudaGraph_t *bodies;
        void *context;
      };
    };
    long long end;
  } parameters;
  struct {
    void *target;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
  } set = {NULL, 0, 7, 4, 16, 1};
  unsigned host[16];
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t node, inside;
  memset(&parameters, 0, sizeof parameters);
  OK(cudaMalloc(&set.target, 64));
  OK(cudaMemset(set.target, 0, 64));
  OK(cudaGraphCreate(&graph, 0));
#if TSR_CUDART >= 13
  OK(cudaGraphConditionalHandleCreate_v2(&parameters.handle, graph, NULL, first, 1));
#else
  OK(cudaGraphConditionalHandleCreate(&parameters.handle, graph, first, 1));
#endif
  parameters.type = 13;
  parameters.size = 1;
#if TSR_CUDART >= 13
  OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &parameters));
#else
  OK(cudaGraphAddNode(&node, graph, NULL, 0, &parameters));
#endif
  HOLDS(parameters.bodies && parameters.bodies[0]);
  OK(cudaGraphAddMemsetNode(&inside, parameters.bodies[0], NULL, 0, (const void *)&set));
  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, NULL));
  OK(cudaMemcpy(host, set.target, 64, cudaMemcpyDeviceToHost));
  HOLDS(host[0] == 7 * first && host[15] == 7 * first);
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(set.target));
}

static void in_both(const char *image) {
  registered_memory();
  conditional(0);
  conditional(1);
  cudaLibrary_t library;
  void *function = NULL;
  OK(cudaDeviceFlushGPUDirectRDMAWrites(0, 100));
  OK(cudaDeviceFlushGPUDirectRDMAWrites(0, 200));
  GIVES(INVALID, cudaDeviceFlushGPUDirectRDMAWrites(1, 100));
  GIVES(INVALID, cudaDeviceFlushGPUDirectRDMAWrites(0, 150));
  OK(cudaLibraryLoadFromFile(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  GIVES(NOT_FOUND, cudaLibraryGetUnifiedFunction(&function, library, "scale"));
  GIVES(INVALID, cudaLibraryGetUnifiedFunction(&function, library, NULL));
  OK(cudaLibraryUnload(library));
  GIVES(INVALID_HANDLE, cudaLibraryGetUnifiedFunction(&function, library, "scale"));
}

#if TSR_CUDART >= 13
static void capabilities(void) {
  const int operations[] = {0, 9, 12}, unknown[] = {0, 13};
  unsigned found[3] = {7, 7, 7};
  OK(cudaDeviceGetHostAtomicCapabilities(found, operations, 3, 0));
  HOLDS(found[0] == 0 && found[1] == 0 && found[2] == 0); /* as HOST_NATIVE_ATOMIC_SUPPORTED */
  GIVES(INVALID, cudaDeviceGetHostAtomicCapabilities(found, unknown, 2, 0));
  GIVES(INVALID, cudaDeviceGetHostAtomicCapabilities(found, operations, 0, 0));
  GIVES(INVALID_DEVICE, cudaDeviceGetHostAtomicCapabilities(found, operations, 1, 77));
  /* a process that sees a slice has one device */
  GIVES(INVALID_DEVICE, cudaDeviceGetP2PAtomicCapabilities(found, operations, 1, 0, 0));
  GIVES(INVALID_DEVICE, cudaDeviceGetP2PAtomicCapabilities(found, operations, 1, 0, 1));
}

static char received[1024];
static int received_count;
static void listen(void *data, int level, char *message, size_t length) {
  if (data == &received_count && level == 0 && length < sizeof received && message[length] == '\0')
    memcpy(received, message, length + 1);
  received_count++;
}

/* A launch with too many threads makes a message, once for each kernel: 4 images have 4 kernels. */
static void make_message(int which) {
  static char stubs[4];
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &stubs[which], &stubs[which], "scale", -1, NULL, NULL, NULL, NULL,
                         NULL);
  __cudaRegisterFatBinaryEnd(handle);
  struct dim3 one = {1, 1, 1}, many = {2048, 1, 1};
  void *nothing[3] = {&one, &one, &one};
  GIVES(9, cudaLaunchKernel(&stubs[which], one, many, nothing, 0, NULL));
  cudaGetLastError();
}

static void messages(const char *path) {
  unsigned at = 99, later = 0, all = 0;
  cudaLogsCallbackHandle handle = NULL;
  char text[4096], file_text[4096] = {0};
  size_t bytes = sizeof text;
  OK(cudaLogsRegisterCallback(listen, &received_count, &handle));
  OK(cudaLogsCurrent(&at, 0));
  GIVES(INVALID, cudaLogsCurrent(&at, 1));
  make_message(0);
  OK(cudaLogsCurrent(&later, 0));
  HOLDS(later == at + 1);
  HOLDS(received_count == 1 && strstr(received, "kernel scale") && received[strlen(received) - 1] == '\n');
  unsigned from = at;
  OK(cudaLogsDumpToMemory(&from, text, &bytes, 0));
  HOLDS(bytes == strlen(text) && strcmp(text, received) == 0 && from == later);
  bytes = sizeof text;
  OK(cudaLogsDumpToMemory(&from, text, &bytes, 0)); /* nothing is left */
  HOLDS(bytes == 0 && text[0] == '\0');
  bytes = 8;
  from = at;
  GIVES(INVALID, cudaLogsDumpToMemory(&from, text, &bytes, 0));
  HOLDS(bytes == 0 && from == at);
  OK(cudaLogsUnregisterCallback(handle));
  GIVES(INVALID, cudaLogsUnregisterCallback(handle));
  make_message(1);
  HOLDS(received_count == 1);
  OK(cudaLogsDumpToFile(&from, path, 0));
  HOLDS(from == later + 1);
  OK(cudaLogsDumpToFile(&all, path, 0));
  FILE *file = fopen(path, "r");
  HOLDS(file && fread(file_text, 1, sizeof file_text - 1, file) > 0);
  if (file) fclose(file);
  int lines = 0;
  for (const char *one = file_text; (one = strchr(one, '\n')); one++) lines++;
  HOLDS(lines == 2 + (int)all && strncmp(file_text, received, strlen(received)) == 0);
}

static void locations(void) {
  unsigned char *managed, *device;
  struct cudaMemLocation found[3] = {{7, 7}, {7, 7}, {7, 7}};
  OK(cudaMallocManaged((void **)&managed, 10000, 1));
  OK(cudaMalloc((void **)&device, 4096));
  OK(cudaMemGetLocationInfo(managed, 10000, 5000, 0, found));
  HOLDS(found[0].type == 2 && found[1].type == 2 && found[2].type == 7);
  GIVES(INVALID, cudaMemGetLocationInfo(managed, 10000, 10001, 0, found));
  GIVES(INVALID, cudaMemGetLocationInfo(managed, 10000, 0, 0, found));
  GIVES(INVALID, cudaMemGetLocationInfo(managed, 10000, 64, 65, found));
  GIVES(INVALID, cudaMemGetLocationInfo(device, 4096, 64, 0, found));
  OK(cudaFree(managed));
  OK(cudaFree(device));
}

static void copies(void) {
  unsigned char host[32], back[32] = {0}, *device;
  struct copy_attributes attributes = {.order = 2 /* during the call */}, wrong = {.order = 9};
  for (int i = 0; i < 32; i++) host[i] = (unsigned char)i;
  OK(cudaMalloc((void **)&device, 32));
  OK(cudaMemcpyWithAttributesAsync(device, host, 32, &attributes, NULL));
  memset(host, 0xff, sizeof host);
  OK(cudaMemcpy(back, device, 32, cudaMemcpyDeviceToHost));
  HOLDS(back[1] == 1 && back[31] == 31);
  GIVES(INVALID, cudaMemcpyWithAttributesAsync(device, host, 32, &wrong, NULL));
  GIVES(INVALID, cudaMemcpyWithAttributesAsync(device, host, 32, NULL, NULL));
  struct copy_region region = {{1, {device, 8, 4, {0, 0}}}, {1, {back, 16, 2, {0, 0}}}, {3, 2, 1}, 1, 0};
  OK(cudaMemcpy3DWithAttributesAsync(&region, 0, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(back[0] == 0 && back[2] == 2 && back[3] == 3 && back[16] == 8 && back[18] == 10 && back[19] == 19);
  GIVES(INVALID, cudaMemcpy3DWithAttributesAsync(&region, 1, NULL));
  OK(cudaFree(device));
}

/* The parameters of nodes, as the runtime names kernels and describes copies. */
static void nodes(void) {
  struct {
    int type, reserved[3];
    union {
      char bytes[232];
      struct {
        struct cudaKernelNodeParams kernel;
        void *context;
        int kind;
      };
      struct {
        int flags, unused;
        void *copy_context;
        struct cudaMemcpy3DParms copy;
      };
      struct {
        void *target;
        size_t pitch;
        unsigned value, element_bytes;
        size_t width, height;
      };
    };
    long long end;
  } read;
  float *data, factor = 2;
  unsigned char host[64];
  int n = 16;
  cudaGraph_t graph;
  cudaGraphNode_t kernel_node, copy_node, set_node;
  const struct dim3 one = {1, 1, 1}, row = {16, 1, 1};
  OK(cudaMalloc((void **)&data, 64));
  void *arguments[] = {&data, &factor, &n};
  struct cudaKernelNodeParams kernel = {&scale_stub, one, row, 0, arguments, NULL};
  struct {
    void *target;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
  } set = {data, 0, 7, 4, 16, 1};
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddKernelNode(&kernel_node, graph, NULL, 0, &kernel));
  OK(cudaGraphAddMemcpyNode1D(&copy_node, graph, NULL, 0, data, host, 64, cudaMemcpyHostToDevice));
  OK(cudaGraphAddMemsetNode(&set_node, graph, NULL, 0, (const void *)&set));
  memset(&read, 0xff, sizeof read);
  OK(cudaGraphNodeGetParams(kernel_node, &read));
  HOLDS(read.type == 0 && read.kernel.func == &scale_stub && read.kernel.blockDim.x == 16);
  HOLDS(read.kind == 0 && *(float **)read.kernel.kernelParams[0] == data);
  OK(cudaGraphNodeGetParams(copy_node, &read));
  HOLDS(read.type == 1 && read.copy.srcPtr.ptr == host && read.copy.dstPtr.ptr == data);
  HOLDS(read.copy.extent.width == 64 && read.copy.kind == cudaMemcpyHostToDevice);
  OK(cudaGraphNodeGetParams(set_node, &read));
  HOLDS(read.type == 2 && read.target == data && read.value == 7 && read.width == 16);
  GIVES(INVALID, cudaGraphNodeGetParams(set_node, NULL));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(data));
}

struct resource { /* of multiprocessors */
  int type;
  char reserved[92];
  unsigned count, least, step, flags;
  char more[32];
};
_Static_assert(sizeof(struct resource) == 144, "the layout of cudaDevResource");

/* A kernel on a part of the multiprocessors. */
static void green(void) {
  struct resource all = {0}, part = {0}, rest = {0}, its = {0};
  unsigned parts = 1;
  cudaDevResourceDesc_t description;
  cudaExecutionContext_t context = NULL, primary = NULL;
  cudaStream_t stream;
  cudaEvent_t event;
  float *data, host[16], factor = 5;
  int n = 16;
  const struct dim3 one = {1, 1, 1}, row = {16, 1, 1};
  OK(cudaDeviceGetDevResource(0, &all, 1));
  HOLDS(all.count >= 2 * all.least);
  OK(cudaDevSmResourceSplitByCount(&part, &parts, &all, &rest, 0, all.least));
  HOLDS(parts == 1 && part.count >= all.least && part.count + rest.count == all.count);
  OK(cudaDevResourceGenerateDesc(&description, &part, 1));
  GIVES(INVALID, cudaGreenCtxCreate(&context, description, 0, 1));
  OK(cudaGreenCtxCreate(&context, description, 0, 0));
  OK(cudaExecutionCtxGetDevResource(context, &its, 1));
  HOLDS(its.count == part.count);
  OK(cudaExecutionCtxStreamCreate(&stream, context, 1, 0));
  memset(&its, 0, sizeof its);
  OK(cudaStreamGetDevResource(stream, &its, 1));
  HOLDS(its.count == part.count);
  for (int i = 0; i < 16; i++) host[i] = (float)i;
  OK(cudaMalloc((void **)&data, sizeof host));
  OK(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice));
  void *arguments[] = {&data, &factor, &n};
  OK(cudaLaunchKernel(&scale_stub, one, row, arguments, 0, stream));
  OK(cudaEventCreate(&event));
  OK(cudaExecutionCtxRecordEvent(context, event));
  OK(cudaExecutionCtxWaitEvent(context, event));
  OK(cudaExecutionCtxSynchronize(context));
  OK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
  HOLDS(host[15] == 75);
  OK(cudaStreamDestroy(stream));
  OK(cudaExecutionCtxDestroy(context));
  OK(cudaDeviceGetExecutionCtx(&primary, 0));
  GIVES(800, cudaExecutionCtxDestroy(primary)); /* not permitted */
  cudaGetLastError();
  OK(cudaEventDestroy(event));
  OK(cudaFree(data));
}

static void in_one(const char *path) {
  green();
  capabilities();
  messages(path);
  locations();
  copies();
  nodes();
}
#else
static void in_one(const char *path) {
  double value = 1.25;
  (void)path;
  OK(cudaSetDoubleForDevice(&value));
  OK(cudaSetDoubleForHost(&value));
  HOLDS(value == 1.25);
  GIVES(INVALID, cudaSetDoubleForDevice(NULL));
  GIVES(INVALID, cudaSetDoubleForHost(NULL));
}
#endif

int main(int count, char **paths) {
  if (count != 3) return 2;
  wrapper.data = read_image(paths[1]);
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &scale_stub, &scale_stub, "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(handle);
  in_both(paths[1]);
  in_one(paths[2]);
  printf("failures %d\n", failures);
  return failures != 0;
}
