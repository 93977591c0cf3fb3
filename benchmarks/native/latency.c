/* Measures the cost of a launch to its caller: prints one line "name p50 p99 min count"
 * (microseconds) each.
 *
 *   latency PTX-FILE KERNEL [load]    (the PTX is only loaded; a tiny kernel is launched)
 *
 * With "load" it ends after the first load of the module. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

CUresult cuInit(unsigned int);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuMemAlloc_v2(uint64_t *, size_t);
CUresult cuMemcpyHtoD_v2(uint64_t, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, uint64_t, size_t);
CUresult cuStreamCreate(CUstream *, unsigned int);
CUresult cuStreamSynchronize(CUstream);
CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, unsigned int, unsigned int, CUstream, void **, void **);

CUresult cuStreamBeginCapture_v2(CUstream, int);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);

CUresult cuEventCreate(CUevent *, unsigned int);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventQuery(CUevent);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
CUresult cuMemPoolSetAttribute(CUmemoryPool, int, void *);
CUresult cuMemAllocAsync(uint64_t *, size_t, CUstream);
CUresult cuMemFreeAsync(uint64_t, CUstream);

/* One thread adds one to a counter, which shows a launch that was not executed. */
static const char COUNTER[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry count(.param .u64 counter)\n{\n"
    "\t.reg .pred %p<2>;\n\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<3>;\n"
    "\tld.param.u64 %rd1, [counter];\n\tcvta.to.global.u64 %rd2, %rd1;\n"
    "\tmov.u32 %r1, %tid.x;\n\tsetp.ne.u32 %p1, %r1, 0;\n\t@%p1 bra DONE;\n"
    "\tld.global.u32 %r2, [%rd2];\n\tadd.u32 %r3, %r2, 1;\n\tst.global.u32 [%rd2], %r3;\n"
    "DONE:\n\tret;\n}\n";

#define CHECK(call)                                                   \
  do {                                                                \
    CUresult status_ = (call);                                        \
    if (status_ != 0) {                                               \
      fprintf(stderr, "latency: %s: CUDA error %d\n", #call, status_); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

#define LAUNCH()                                                                       \
  do {                                                                                 \
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));      \
    launched++;                                                                        \
  } while (0)

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *name, double *samples, int count) {
  qsort(samples, count, sizeof *samples, by_value);
  printf("%s %.3f %.3f %.3f %d\n", name, samples[count / 2], samples[count * 99L / 100],
         samples[0], count);
  fflush(stdout);
}

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) return NULL;
  long size = ftell(file);
  char *text = calloc(1, size + 1);
  rewind(file);
  if (fread(text, 1, size, file) != (size_t)size) return NULL;
  fclose(file);
  return text;
}

enum { BATCH = 64, BATCHES = 200, PAIRS = 5000, IDLE = 1000, LOADS = 200, GRAPH_NODES = 100, REPLAYS = 1000 };
static double samples[BATCH * BATCHES];

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4) return 2;
  char *ptx = read_file(argv[1]);
  if (!ptx) {
    perror(argv[1]);
    return 2;
  }
  double start = now_us();
  CUdevice device;
  CUcontext context;
  CUmodule module, loaded;
  CUfunction kernel, other;
  CUstream stream;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  samples[0] = now_us() - start;
  report("context", samples, 1);

  /* A module that was never loaded by this process; cached on the node if it ran before. */
  start = now_us();
  CHECK(cuModuleLoadData(&loaded, ptx));
  CHECK(cuModuleGetFunction(&other, loaded, argv[2]));
  samples[0] = now_us() - start;
  report("first_load", samples, 1);
  if (argc == 4) return 0;
  for (int i = 0; i < LOADS; i++) {
    CHECK(cuModuleUnload(loaded));
    start = now_us();
    CHECK(cuModuleLoadData(&loaded, ptx));
    CHECK(cuModuleGetFunction(&other, loaded, argv[2]));
    samples[i] = now_us() - start;
  }
  report("load", samples, LOADS);

  uint32_t launched = 0, ran = 0;
  uint64_t counter;
  void *arguments[] = {&counter};
  CHECK(cuMemAlloc_v2(&counter, sizeof ran));
  CHECK(cuMemcpyHtoD_v2(counter, &ran, sizeof ran));
  CHECK(cuModuleLoadData(&module, COUNTER));
  CHECK(cuModuleGetFunction(&kernel, module, "count"));
  CHECK(cuStreamCreate(&stream, 1));
  for (int i = 0; i < 100; i++) {
    LAUNCH();
    CHECK(cuStreamSynchronize(stream));
  }

  int count = 0;
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int i = 0; i < BATCH; i++) {
      start = now_us();
      LAUNCH();
      samples[count++] = now_us() - start;
    }
    CHECK(cuStreamSynchronize(stream));
  }
  report("launch", samples, count);

  for (int i = 0; i < PAIRS; i++) {
    start = now_us();
    LAUNCH();
    CHECK(cuStreamSynchronize(stream));
    samples[i] = now_us() - start;
  }
  report("launch_sync", samples, PAIRS);

  struct timespec millisecond = {0, 1000000};
  for (int i = 0; i < IDLE; i++) {
    nanosleep(&millisecond, NULL);
    start = now_us();
    LAUNCH();
    CHECK(cuStreamSynchronize(stream));
    samples[i] = now_us() - start;
  }
  report("launch_sync_idle", samples, IDLE);

  /* Allocations that the pool serves from what it keeps: freed memory of the same stream. */
  enum { RELEASE_THRESHOLD = 4, BLOCK = 65536 };
  CUmemoryPool pool;
  uint64_t keep = UINT64_MAX, block;
  CHECK(cuDeviceGetDefaultMemPool(&pool, device));
  CHECK(cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, &keep));
  double *const frees = samples + PAIRS;
  for (int i = -1; i < PAIRS; i++) {
    start = now_us();
    CHECK(cuMemAllocAsync(&block, BLOCK, stream));
    const double middle = now_us();
    CHECK(cuMemFreeAsync(block, stream));
    const double end = now_us();
    if (i < 0) continue; /* the pool obtains its first memory */
    samples[i] = middle - start;
    frees[i] = end - middle;
  }
  report("pool_allocation", samples, PAIRS);
  report("pool_free", frees, PAIRS);

  CUevent event;
  CHECK(cuEventCreate(&event, 2)); /* without time */
  count = 0;
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int i = 0; i < BATCH; i++) {
      start = now_us();
      CHECK(cuEventRecord(event, stream));
      samples[count++] = now_us() - start;
    }
    CHECK(cuStreamSynchronize(stream));
  }
  report("event_record", samples, count);
  for (int i = 0; i < PAIRS; i++) {
    start = now_us();
    CHECK(cuEventQuery(event));
    samples[i] = now_us() - start;
  }
  report("event_query", samples, PAIRS);

  /* The caller's part of a graph's launch; the graph is a chain of kernels. */
  for (int large = 0; large < 2; large++) {
    const int nodes = large ? GRAPH_NODES : 1;
    CUgraph graph;
    CUgraphExec executable;
    CHECK(cuStreamBeginCapture_v2(stream, 2));
    for (int i = 0; i < nodes; i++) LAUNCH();
    launched -= nodes; /* they were captured */
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < REPLAYS; i++) {
      start = now_us();
      CHECK(cuGraphLaunch(executable, stream));
      samples[i] = now_us() - start;
      launched += nodes;
      CHECK(cuStreamSynchronize(stream));
    }
    report(large ? "replay_100" : "replay_1", samples, REPLAYS);
  }
  CHECK(cuMemcpyDtoH_v2(&ran, counter, sizeof ran));
  if (ran != launched) {
    fprintf(stderr, "latency: %u launches, but the kernel ran %u times\n", launched, ran);
    return 1;
  }
  return 0;
}
