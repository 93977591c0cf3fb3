/* Creation and destruction of contexts. health.c handles their failure. */
#define _GNU_SOURCE
#include "contexts/context.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/aperture.h"
#include "base/hooks.h"
#include "memory/chunk.h"
#include "event_tables/event_table.h"
#include "config.h"
#include "base/device.h"
#include "base/environment.h"
#include "contexts/fault_place.h"
#include "exchange/kernel_output.h"
#include "log.h"
#include "modules/module.h"
#include "registered/registered.h"
#include "patience.h"
#include "exchange/ring.h"
#include "callbacks/host_queue.h"
#include "nodes/capture.h"
#include "memory/graph_memory.h"
#include "memory/peers.h"
#include "memory/pool.h"
#include "memory/views.h"
#include "memory/system_area.h"
#include "exchange/wait.h"
#include "exchange/request.h"
#include "exchange/share.h"

/* gpud may wait 10 s for a fence before it starts a process. */
enum { CONTEXT_TIMEOUT_S = 60 };

pthread_mutex_t tsr_context_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_id = 1;
/* The aperture stays where the first context has placed it. */
static bool settled;

/* Live contexts, by their index, which is unique in the process. No lock is needed to read them:
 * the fork handler must not take one. */
static struct tsr_context *_Atomic open_contexts[TESSERA_MAX_CONTEXTS];

void tsr_contexts_close_sockets(void) {
  for (size_t i = 0; i < sizeof open_contexts / sizeof *open_contexts; i++) {
    struct tsr_context *context = atomic_load(&open_contexts[i]);
    if (context) close(context->socket);
  }
}

/* Mappings of rings and page stay at the address where they were first made for an index, so
 * that a thread that still reads a closed context finds zeros, never an unmapped page. */
static struct views {
  void *area, *page;
} views[TESSERA_MAX_CONTEXTS];

static void *map_view(void **view, size_t bytes, int protection, int fd) {
  const int fixed = *view ? MAP_FIXED : 0;
  void *mapped = mmap(*view, bytes, protection, MAP_SHARED | fixed, fd, 0);
  if (mapped == MAP_FAILED) return NULL;
  madvise(mapped, bytes, MADV_DONTFORK);
  return *view = mapped;
}

static void blank_view(void *view, size_t bytes) {
  mmap(view, bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static size_t pages(size_t bytes) {
  return (bytes + TESSERA_PAGE_BYTES - 1) / TESSERA_PAGE_BYTES * TESSERA_PAGE_BYTES;
}

/* Access to a file shorter than the mapping would raise SIGBUS later. */
static bool long_enough(int fd, size_t bytes) {
  return fd >= 0 && lseek(fd, 0, SEEK_END) >= (off_t)bytes;
}

static void release_memory(struct tsr_context *context) {
  tsr_pools_trim(context);
  tsr_hooks_run(TSR_ON_SYNCHRONIZED, context);
}

static CUresult map_context(struct tsr_context *context, struct tsr_reply *reply) {
  tessera_context_ready ready;
  if (reply->payload_bytes != sizeof ready) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  memcpy(&ready, reply->payload, sizeof ready);
  context->area_bytes = pages(sizeof(tessera_client_area));
  /* A worker that was started before this library was installed reports no fault details. */
  const size_t oldest = offsetof(tessera_worker_page, detail);
  const bool detailed = ready.worker_page_bytes >= sizeof(tessera_worker_page);
  const size_t page_bytes = detailed ? sizeof(tessera_worker_page) : oldest;
  context->page_bytes = pages(page_bytes);
  const size_t oldest_area = offsetof(tessera_client_area, priorities);
  if (ready.client_area_bytes < oldest_area ||
      ready.worker_page_bytes < oldest ||
      !long_enough(reply->fds[0], oldest_area) ||
      !long_enough(reply->fds[1], page_bytes))
    return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  struct views *view = &views[context->index];
  context->area =
      map_view(&view->area, context->area_bytes, PROT_READ | PROT_WRITE, reply->fds[0]);
  context->page = map_view(&view->page, context->page_bytes, PROT_READ, reply->fds[1]);
  if (!context->area || !context->page) return CUDA_ERROR_OPERATING_SYSTEM;
  if (context->page->magic != TESSERA_WORKER_PAGE_MAGIC ||
      context->page->version != TESSERA_ABI_VERSION)
    return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  context->detail = detailed ? &context->page->detail : NULL;
  context->place_fault = tsr_fault_place;
  context->synchronized = release_memory;
  tsr_ring_setup(context);
  return CUDA_SUCCESS;
}

/* Send one HELLO. TSR_UNREACHABLE: there is no listener, even after a wait. */
static enum tsr_outcome greet_once(struct tsr_context *context, struct tsr_patience *patience,
                                   struct tsr_reply *reply) {
  context->socket = tsr_connect_patiently(patience, context->device->slice.socket_path);
  if (context->socket < 0) return TSR_UNREACHABLE;
  tessera_hello hello = {.version_min = TESSERA_PROTOCOL_OLDEST,
                         .version_max = TESSERA_PROTOCOL_VERSION,
                         .context_index = context->index,
                         .aperture_base = tsr_aperture_base,
                         .thread_share = tsr_thread_share()};
  memcpy(hello.token, tsr_config()->token, sizeof hello.token);
  const enum tsr_outcome outcome = tsr_hello(
      context->socket, TESSERA_MESSAGE_TYPE_HELLO_CONTEXT, &hello, CONTEXT_TIMEOUT_S, reply);
  if (outcome != TSR_RECEIVED || reply->status != 0) close(context->socket);
  return outcome;
}

/* Repeat the HELLO, to the same gpud or its successor, for as long as the client waits for a
 * restart: instead of replying, a gpud that ends, or that lacks a report it needs, closes the
 * connection, and one that hangs is silent until it is ended. */
static CUresult greet(struct tsr_context *context, struct tsr_reply *reply) {
  const char *path = context->device->slice.socket_path;
  struct tsr_patience patience = {0};
  enum tsr_outcome outcome;
  bool again;
  do {
    outcome = greet_once(context, &patience, reply);
    again = (outcome == TSR_CLOSED && tsr_patience_wait_for_agent(&patience, path)) ||
            (outcome == TSR_SILENT &&
             tsr_patience_wait_for_reply(&patience, path, CONTEXT_TIMEOUT_S));
  } while (again);
  const CUresult result = tsr_hello_result(outcome, reply->status);
  return result == CUDA_ERROR_NO_DEVICE ? CUDA_ERROR_DEVICE_UNAVAILABLE : result;
}

/* Try the aperture's bases in turn until both client and worker have room. */
static CUresult connect_worker(struct tsr_context *context, struct tsr_reply *reply) {
  unsigned candidate = 0;
  for (;;) {
    if (!tsr_aperture_base && !tsr_aperture_reserve(&candidate)) {
      tsr_log("no place for %llu TiB of address space (none of it is memory; see ulimit -v)",
              (unsigned long long)(TESSERA_APERTURE_BYTES >> 40));
      return CUDA_ERROR_MAP_FAILED;
    }
    const CUresult result = greet(context, reply);
    if (result == CUDA_SUCCESS || settled) return result;
    tsr_aperture_release();
    if (result != CUDA_ERROR_MAP_FAILED) return result;
    candidate++;
  }
}

static int free_index(void) {
  for (int i = 0; i < (int)TESSERA_MAX_CONTEXTS; i++)
    if (!atomic_load(&open_contexts[i])) return i;
  return -1;
}

struct tsr_context *tsr_context_on(const struct tsr_device *device) {
  struct tsr_context *found = NULL;
  pthread_mutex_lock(&tsr_context_lock);
  for (size_t i = 0; i < TESSERA_MAX_CONTEXTS; i++) {
    struct tsr_context *context = atomic_load(&open_contexts[i]);
    if (!context || context->device != device) continue;
    if (!found || context->primary || (!found->primary && context->id > found->id))
      found = context;
  }
  pthread_mutex_unlock(&tsr_context_lock);
  return found;
}

CUresult tsr_context_open(struct tsr_device *device, uint32_t flags, uint32_t api_version,
                          bool primary, uint64_t *handle) {
  const int index = free_index();
  if (index < 0) {
    tsr_log("a process has at most %d contexts", (int)TESSERA_MAX_CONTEXTS);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct tsr_context *context = tsr_object_new(TSR_CONTEXT);
  if (!context) return CUDA_ERROR_OUT_OF_MEMORY;
  context->device = device;
  context->index = (uint32_t)index;
  context->flags = flags;
  context->api_version = api_version;
  context->primary = primary;
  context->id = next_id++;
  context->request = 1;
  tsr_system_area_setup(context);
  static struct tsr_reply reply; /* guarded by tsr_context_lock */
  CUresult result = connect_worker(context, &reply);
  if (result == CUDA_SUCCESS) {
    result = map_context(context, &reply);
    tsr_reply_close(&reply);
    if (result != CUDA_SUCCESS) close(context->socket);
  }
  if (result != CUDA_SUCCESS) {
    if (!settled && tsr_aperture_base) tsr_aperture_release();
    tsr_object_free(TSR_CONTEXT, context);
    return result;
  }
  settled = true;
  atomic_store(&open_contexts[index], context);
  *handle = tsr_object_publish(TSR_CONTEXT, context);
  tsr_peers_enter(context);
  return CUDA_SUCCESS;
}

/* Close a socket once the worker has ended, but after a second at the latest. Then cuMemGetInfo
 * no longer counts this context's memory. */
static void close_gracefully(int socket) {
  shutdown(socket, SHUT_WR);
  const struct timeval patience = {.tv_sec = 1};
  char rest[256];
  ssize_t got = setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0;
  while (got > 0 || (got < 0 && errno == EINTR)) got = recv(socket, rest, sizeof rest, 0);
  close(socket);
}

CUresult tsr_context_close(uint64_t handle) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  tsr_wait_all(context); /* a failed context has nothing to wait for */
  tsr_capture_abandon(context, TESSERA_MAX_STREAMS);
  if (!tsr_object_retire(TSR_CONTEXT, handle)) return CUDA_ERROR_INVALID_CONTEXT;
  atomic_store(&context->lost, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  tsr_finish_questions(context);
  tsr_ring_quiesce(context);
  /* Tasks that another thread has enqueued since the wait run with an error. */
  tsr_host_stop(context);
  tsr_peers_drop(context);
  atomic_store(&open_contexts[context->index], NULL);
  close_gracefully(context->socket);
  tsr_modules_drop(context);
  tsr_kernel_output_drop(context);
  tsr_graph_memory_drop(context);
  tsr_pools_drop(context);
  tsr_views_drop(context);
  tsr_registered_drop(context);
  tsr_share_drop(context);
  tsr_event_tables_drop(context);
  tsr_hooks_run(TSR_ON_CLOSE, context);
  tsr_chunks_drop(context);
  blank_view(context->area, context->area_bytes);
  blank_view((void *)(uintptr_t)context->page, context->page_bytes);
  tsr_object_free(TSR_CONTEXT, context);
  return CUDA_SUCCESS;
}
