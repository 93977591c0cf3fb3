/* Images, kernels and variables by host address. A look-up takes no lock: entries are only added,
 * and an entry of an image that was removed stays, without its image. */
#define _GNU_SOURCE
#include "code/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "log.h"

struct tsr_image {
  const void *code;
  _Atomic(cudaLibrary_t) library;
};

struct entry {
  const void *host;
  const char *name;
  size_t bytes;
  bool managed;
  _Atomic(struct tsr_image *) image;
  _Atomic(cudaKernel_t) kernel;
  struct entry *next;
};

enum { BUCKET_BITS = 15, BUCKETS = 1 << BUCKET_BITS };
static _Atomic(struct entry *) kernels[BUCKETS], variables[BUCKETS];

/* Guards additions; loading has its own lock, because it takes long. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t bucket_of(const void *host) {
  return ((uintptr_t)host * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - BUCKET_BITS);
}

static struct entry *find(_Atomic(struct entry *) *table, const void *host) {
  struct entry *entry =
      atomic_load_explicit(&table[bucket_of(host)], memory_order_acquire);
  while (entry && entry->host != host) entry = entry->next;
  return entry;
}

/* Add an entry, or use that of an earlier image at the same address. If there is no memory, uses of
 * the host address fail. */
static void add(_Atomic(struct entry *) *table, struct tsr_image *image, const void *host,
                const char *name, size_t bytes, bool managed) {
  pthread_mutex_lock(&lock);
  struct entry *entry = find(table, host);
  const bool fresh = !entry;
  if (fresh) entry = calloc(1, sizeof *entry);
  if (entry) {
    entry->host = host;
    entry->name = name;
    entry->bytes = bytes;
    entry->managed = managed;
    atomic_store(&entry->kernel, NULL);
    atomic_store(&entry->image, image);
    if (fresh) {
      _Atomic(struct entry *) *head = &table[bucket_of(host)];
      entry->next = atomic_load(head);
      atomic_store_explicit(head, entry, memory_order_release);
    }
  }
  pthread_mutex_unlock(&lock);
}

struct tsr_image *tsr_image_add(const void *code) {
  struct tsr_image *image = calloc(1, sizeof *image);
  if (image) image->code = code;
  return image;
}

static void forget(_Atomic(struct entry *) *table, const struct tsr_image *image) {
  for (size_t i = 0; i < BUCKETS; i++) {
    for (struct entry *entry = atomic_load(&table[i]); entry; entry = entry->next) {
      if (atomic_load(&entry->image) != image) continue;
      atomic_store(&entry->image, NULL);
      atomic_store(&entry->kernel, NULL);
    }
  }
}

void tsr_image_remove(struct tsr_image *image) {
  if (!image) return;
  pthread_mutex_lock(&lock);
  forget(kernels, image);
  forget(variables, image);
  pthread_mutex_unlock(&lock);
  /* At the end of the process, the driver may have ended already. */
  const cudaLibrary_t library = atomic_load(&image->library);
  if (library) cuLibraryUnload(library);
  free(image);
}

void tsr_kernel_add(struct tsr_image *image, const void *host, const char *name) {
  add(kernels, image, host, name, 0, false);
}

void tsr_variable_add(struct tsr_image *image, const void *host, const char *name, size_t bytes,
                      bool managed) {
  add(variables, image, host, name, bytes, managed);
}

static cudaError_t load(struct tsr_image *image, cudaLibrary_t *library) {
  *library = atomic_load_explicit(&image->library, memory_order_acquire);
  if (*library) return cudaSuccess;
  pthread_mutex_lock(&load_lock);
  int result = cudaSuccess;
  *library = atomic_load(&image->library);
  if (!*library) {
    result = cuLibraryLoadData(library, image->code, NULL, NULL, 0, NULL, NULL, 0);
    if (result == cudaSuccess)
      atomic_store_explicit(&image->library, *library, memory_order_release);
  }
  pthread_mutex_unlock(&load_lock);
  return result;
}

static cudaError_t resolve(struct entry *entry, cudaKernel_t *kernel) {
  struct tsr_image *image = atomic_load(&entry->image);
  if (!image) return cudaErrorInvalidDeviceFunction;
  cudaLibrary_t library;
  cudaError_t result = load(image, &library);
  if (result != cudaSuccess) return result;
  result = cuLibraryGetKernel(kernel, library, entry->name);
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
  if (result == cudaSuccess) atomic_store_explicit(&entry->kernel, *kernel, memory_order_release);
  return result;
}

cudaError_t tsr_kernel_of(const void *host, cudaKernel_t *kernel) {
  struct entry *entry = find(kernels, host);
  if (!entry) {
    *kernel = (cudaKernel_t)(uintptr_t)host;
    return host ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  }
  *kernel = atomic_load_explicit(&entry->kernel, memory_order_acquire);
  return *kernel ? cudaSuccess : resolve(entry, kernel);
}

cudaError_t tsr_function_of(const void *host, cudaFunction_t *function) {
  cudaKernel_t kernel;
  cudaError_t result = tsr_kernel_of(host, &kernel);
  if (result == cudaSuccess) result = cuKernelGetFunction(function, kernel);
  return result == CUDA_ERROR_INVALID_HANDLE ? cudaErrorInvalidDeviceFunction : result;
}

void *tsr_host_of(cudaFunction_t function, cudaKernel_t kernel) {
  for (size_t i = 0; i < BUCKETS; i++) {
    for (const struct entry *entry = atomic_load(&kernels[i]); entry; entry = entry->next) {
      const cudaKernel_t its = atomic_load(&entry->kernel);
      cudaFunction_t here = NULL;
      if (!its) continue;
      if (function ? cuKernelGetFunction(&here, its) == cudaSuccess && here == function
                   : its == kernel)
        return (void *)(uintptr_t)entry->host;
    }
  }
  return function ? (void *)function : (void *)kernel;
}

/* Find the managed variable at an address. In host code, the name of a managed variable is what its
 * registered pointer points to, so that programs pass this address as the symbol. */
static const struct entry *find_managed(const void *address) {
  for (size_t i = 0; i < BUCKETS; i++) {
    for (const struct entry *entry = atomic_load(&variables[i]); entry; entry = entry->next) {
      if (entry->managed && atomic_load(&entry->image) && *(void *const *)entry->host == address)
        return entry;
    }
  }
  return NULL;
}

cudaError_t tsr_symbol(const void *host, void **address, size_t *bytes) {
  const struct entry *entry = find(variables, host);
  if (!entry && host) entry = find_managed(host);
  struct tsr_image *image = entry ? atomic_load(&entry->image) : NULL;
  if (!image) return cudaErrorInvalidSymbol;
  cudaLibrary_t library;
  cudaError_t result = load(image, &library);
  if (result != cudaSuccess) return result;
  result = entry->managed ? cuLibraryGetManaged(address, bytes, library, entry->name)
                          : cuLibraryGetGlobal(address, bytes, library, entry->name);
  return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : result;
}

static cudaError_t store_managed(const struct entry *entry, cudaLibrary_t library) {
  void *address = NULL;
  const int result = cuLibraryGetManaged(&address, NULL, library, entry->name);
  if (result == cudaSuccess) *(void **)(uintptr_t)entry->host = address;
  if (result != cudaSuccess)
    tsr_log("managed variable %s has no memory (CUDA error %d)", entry->name, result);
  return result;
}

cudaError_t tsr_image_store_managed(struct tsr_image *image) {
  cudaLibrary_t library;
  cudaError_t first = load(image, &library);
  if (first != cudaSuccess) return first;
  for (size_t i = 0; i < BUCKETS; i++) {
    for (const struct entry *entry = atomic_load(&variables[i]); entry; entry = entry->next) {
      if (!entry->managed || atomic_load(&entry->image) != image) continue;
      const cudaError_t result = store_managed(entry, library);
      if (first == cudaSuccess) first = result;
    }
  }
  return first;
}
