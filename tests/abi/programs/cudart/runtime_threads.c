/* Threads that launch, allocate and reset errors side by side; a library with kernels that is loaded
 * and unloaded; a program that uses runtime and driver together; the cost of registration. Argument 1
 * is an image with the kernel `scale`, argument 2 a library with the function `scale_twice`. */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "runtime_checked.h"

int cuCtxGetCurrent(void **);
int cuCtxSetCurrent(void *);
int cuCtxCreate_v2(void **, unsigned int, int);
int cuCtxDestroy_v2(void *);
int cuMemAlloc_v2(void **, size_t);
int cuMemcpyDtoH_v2(void *, void *, size_t);

static struct wrapper wrapper = {0x466243b1, 1, NULL, NULL};
static char scale_stub;
enum { N = 256, THREADS = 6, ROUNDS = 20, FUNCTIONS = 24133 };
static const struct dim3 one = {1, 1, 1}, row = {N, 1, 1};

static void registered(const char *path) {
  wrapper.data = read_image(path);
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &scale_stub, &scale_stub, "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(handle);
}

static void scaled(float factor) {
  float *data, host[N];
  int n = N;
  for (int i = 0; i < N; i++) host[i] = (float)i;
  OK(cudaMalloc((void **)&data, sizeof host));
  OK(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice));
  void *arguments[] = {&data, &factor, &n};
  OK(cudaLaunchKernel(&scale_stub, one, row, arguments, 0, NULL));
  OK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
  HOLDS(host[255] == 255 * factor);
  OK(cudaFree(data));
}

static void *work(void *argument) {
  const float factor = (float)(size_t)argument;
  OK(cudaGetLastError());
  for (int i = 0; i < ROUNDS; i++) {
    scaled(factor);
    if (factor == 1) GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 1));
  }
  /* Each thread has its own last error. */
  GIVES(factor == 1 ? cudaErrorInvalidValue : cudaSuccess, cudaGetLastError());
  return NULL;
}

static void threads(void) {
  pthread_t started[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&started[i], NULL, work, (void *)(i + 1));
  for (size_t i = 0; i < THREADS; i++) pthread_join(started[i], NULL);
}

/* Another library of the process may have kernels, too, and may be unloaded. */
static void libraries(const char *path, const char *image) {
  for (int i = 0; i < 3; i++) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    int (*scale_twice)(const char *) = NULL;
    void *found = library ? dlsym(library, "scale_twice") : NULL;
    memcpy(&scale_twice, &found, sizeof scale_twice);
    HOLDS(scale_twice && scale_twice(image) == 0);
    if (library) dlclose(library);
  }
}

/* The runtime uses the context that the program has set, and its own otherwise. */
static void driver(void) {
  void *primary = NULL, *own, *memory, *current = NULL;
  int value = 0;
  OK(cuCtxGetCurrent(&primary));
  OK(cuMemAlloc_v2(&memory, 4));
  OK(cudaMemset(memory, 1, 4));
  OK(cuMemcpyDtoH_v2(&value, memory, 4));
  HOLDS(value == 0x01010101);
  OK(cudaFree(memory));
  OK(cuCtxCreate_v2(&own, 0, 0));
  scaled(5); /* the image is loaded into this context, too */
  OK(cuCtxGetCurrent(&current));
  HOLDS(current == own && own != primary);
  OK(cuCtxDestroy_v2(own));
  OK(cuCtxSetCurrent(NULL));
  scaled(7);
  OK(cuCtxGetCurrent(&current));
  HOLDS(current == primary);
}

/* PyTorch registers this many kernels before main. */
static void registrations(void) {
  static char stubs[FUNCTIONS];
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  void **handle = __cudaRegisterFatBinary(&wrapper);
  for (int i = 0; i < FUNCTIONS; i++)
    __cudaRegisterFunction(handle, &stubs[i], &stubs[i], "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(handle);
  __cudaUnregisterFatBinary(handle);
  clock_gettime(CLOCK_MONOTONIC, &after);
  const double seconds = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
  HOLDS(seconds < 0.3);
  GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&stubs[7], one, one, NULL, 0, NULL));
}

int main(int count, char **paths) {
  if (count != 3) return 2;
  registered(paths[1]);
  threads();
  libraries(paths[2], paths[1]);
  driver();
  registrations();
  printf("failures %d\n", failures);
  return failures != 0;
}
