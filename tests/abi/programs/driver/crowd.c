#define _GNU_SOURCE
/* Threads × contexts × streams in one process: each thread fills and copies in every stream of every
 * context, by the driver or by a runtime that it loads, while another thread loads and closes the
 * libraries; then fork without exec, and fork with exec. Arguments: threads, contexts, streams of a
 * context, rounds, and the runtime's path. As a child, argument 1 is "child". */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checked.h"

enum { MOST_CONTEXTS = 8, MOST_STREAMS = 4, MOST_THREADS = 64, WORDS = 512, NOT_INITIALIZED = 3 };

static int threads, contexts, streams, rounds;
static CUcontext context_of[MOST_CONTEXTS];
static CUstream stream_of[MOST_CONTEXTS][MOST_STREAMS];
static int (*runtime_malloc)(void **, size_t);
static int (*runtime_free)(void *);
static int (*runtime_copy)(void *, const void *, size_t, int);
static int (*runtime_fill)(void *, int, size_t);
static atomic_bool done;

static void by_driver(uint32_t seed, int context, int stream) {
  uint32_t *pinned;
  CUdeviceptr memory;
  OK(cuCtxSetCurrent(context_of[context]));
  OK(cuMemAlloc_v2(&memory, WORDS * 4));
  OK(cuMemHostAlloc((void **)&pinned, WORDS * 4, 0));
  const CUstream used = stream_of[context][stream];
  OK(cuMemsetD32Async(memory, seed, WORDS, used));
  OK(cuMemsetD32Async(memory, ~seed, WORDS / 2, used));
  OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, memory, WORDS * 4, used));
  OK(cuStreamSynchronize(used));
  int wrong = 0;
  for (int i = 0; i < WORDS; i++) wrong += pinned[i] != (i < WORDS / 2 ? ~seed : seed);
  OK(wrong == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
  OK(cuMemFreeHost(pinned));
  OK(cuMemFree_v2(memory));
}

static void by_runtime(unsigned char value) {
  unsigned char host[WORDS];
  void *memory;
  OK(cuCtxSetCurrent(NULL)); /* the runtime then takes the primary context */
  OK(runtime_malloc(&memory, WORDS));
  OK(runtime_fill(memory, value, WORDS));
  OK(runtime_copy(host, memory, WORDS, 2));
  int wrong = 0;
  for (int i = 0; i < WORDS; i++) wrong += host[i] != value;
  OK(wrong == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
  OK(runtime_free(memory));
}

static void *work(void *argument) {
  const uint32_t me = (uint32_t)(uintptr_t)argument;
  for (int round = 0; round < rounds; round++) {
    for (int context = 0; context < contexts; context++)
      for (int stream = 0; stream < streams; stream++)
        by_driver(me * 65537 + (uint32_t)(round * 100 + context * 10 + stream), context, stream);
    by_runtime((unsigned char)(me + (uint32_t)round));
  }
  return NULL;
}

static void *load_and_close(void *path) {
  const char *names[] = {"libcuda.so.1", path, "libnvrtc.so.12", "libnvJitLink.so.12"};
  for (int i = 0; !atomic_load(&done) || i < 40; i++) {
    void *library = dlopen(names[i % 4], RTLD_NOW);
    OK(library ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    if (library) dlclose(library);
  }
  return NULL;
}

static int end_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int count, char **given) {
  if (count == 2 && strcmp(given[1], "child") == 0) {
    CUcontext context;
    CUdeviceptr memory;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuMemAlloc_v2(&memory, 4096));
    return failures != 0;
  }
  if (count != 6) return 2;
  threads = atoi(given[1]), contexts = atoi(given[2]), streams = atoi(given[3]), rounds = atoi(given[4]);
  if (threads > MOST_THREADS || contexts > MOST_CONTEXTS || streams > MOST_STREAMS) return 2;
  void *runtime = dlopen(given[5], RTLD_NOW);
  if (!runtime) return 2;
  *(void **)&runtime_malloc = dlsym(runtime, "cudaMalloc");
  *(void **)&runtime_free = dlsym(runtime, "cudaFree");
  *(void **)&runtime_copy = dlsym(runtime, "cudaMemcpy");
  *(void **)&runtime_fill = dlsym(runtime, "cudaMemset");
  OK(cuInit(0));
  for (int context = 0; context < contexts; context++) {
    OK(cuCtxCreate_v2(&context_of[context], 0, 0));
    for (int i = 0; i < streams; i++) OK(cuStreamCreate(&stream_of[context][i], i % 2));
  }
  pthread_t loader, thread[MOST_THREADS];
  pthread_create(&loader, NULL, load_and_close, given[5]);
  for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1));
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  atomic_store(&done, true);
  pthread_join(loader, NULL);

  pid_t child = fork();
  if (child == 0) {
    CUdeviceptr memory;
    void *pointer;
    const int driver = (int)cuMemAlloc_v2(&memory, 64), above = runtime_malloc(&pointer, 64);
    _exit(driver == NOT_INITIALIZED && above == NOT_INITIALIZED ? 0 : 1);
  }
  OK(end_of(child));
  child = fork();
  if (child == 0) {
    execl("/proc/self/exe", given[0], "child", (char *)NULL);
    _exit(99);
  }
  OK(end_of(child));
  by_driver(7, contexts - 1, streams - 1); /* the parent is not affected */
  by_runtime(9);
  for (int context = 0; context < contexts; context++) OK(cuCtxDestroy_v2(context_of[context]));
  printf("failures %d\n", failures);
  return failures != 0;
}
