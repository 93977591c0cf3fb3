/* The records in which grids submit launches, copies, fills and graphs (compiler/device_runtime.ptx has
 * their layout). They are in memory that kernels write at any time: the runtime copies all records
 * of a grid once, when the grid has ended, and checks the copy as it checks requests of the client. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/internal.h"

enum { KIND_LAUNCH = 1, KIND_COPY, KIND_FILL, KIND_UNLOADED, KIND_GRAPH };
enum { HEAD_BYTES = 64, ERRORS_BYTES = 1024 * 16, CURRENT_GRAPH = HEAD_BYTES + ERRORS_BYTES };
static const uint64_t MAX_RECORD_BYTES =
    (uint64_t)TESSERA_MAX_PENDING_LAUNCHES * TESSERA_LAUNCH_RECORD_BYTES;

/* The head of the launch buffer. */
typedef struct head {
  uint32_t begun, submitted;
  uint64_t used_bytes, limit, capacity_bytes, records, index, self;
  uint32_t errors, handles;
} head;

typedef struct record {
  uint64_t kernel;
  uint32_t kind, tail;
  union {
    struct {
      uint32_t grid[3], block[3];
    };
    struct {
      uint64_t destination, source, bytes;
    } copy;
    struct {
      uint64_t destination, count;
      uint32_t value;
    } fill;
    struct {
      uint64_t list;
      uint32_t slots;
    } graph;
  };
  uint32_t shared_bytes, parameter_bytes, unused, room;
  uint64_t reserved;
} record;

_Static_assert(sizeof(head) == HEAD_BYTES && sizeof(record) == HEAD_BYTES, "as device_runtime.ptx");

struct tw_children {
  uint8_t *records;
  uint64_t *index; /* offsets of the records, in the order in which they were submitted */
  uint64_t record_bytes;
  uint32_t count, next, left;
  bool tails; /* those of the tail stream are next */
  uint32_t depth, stack_bytes;
  uint16_t multiprocessors;
};

static pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;

static void reject(uint64_t address, const char *why) __attribute__((noreturn));
static void reject(uint64_t address, const char *why) {
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                  .error = CUDA_ERROR_LAUNCH_FAILED,
                  .address = address,
                  .message = why});
}

/* Copy live memory of the context; the caller holds tw_chunks_lock. */
static bool read_locked(void *to, uint64_t address, uint64_t bytes) {
  if (!tw_chunks_cover_locked(address, bytes)) return false;
  memcpy(to, (const void *)(uintptr_t)address, bytes);
  __asm__ volatile("" ::: "memory");
  return true;
}

/* Write the list of the graph whose kernel begins, or 0, to the buffer; the caller holds buffer_lock. */
static void write_graph(uint64_t variable) {
  static uint64_t written; /* guarded by buffer_lock; a kernel that overwrites it misleads itself */
  const uint64_t graph = tw_graph_current();
  if (graph == written) return;
  uint64_t address = 0;
  tw_chunks_lock();
  if (read_locked(&address, variable, sizeof address) && address != 0 &&
      tw_chunks_cover_locked(address + CURRENT_GRAPH, sizeof graph)) {
    memcpy((void *)(uintptr_t)(address + CURRENT_GRAPH), &graph, sizeof graph);
    written = graph;
  }
  tw_chunks_unlock();
}

void tw_children_begin(const tessera_worker_kernel *kernel) {
  if (kernel->launch_buffer == 0) return;
  if (pthread_mutex_trylock(&buffer_lock) != 0) {
    tw_lead_pass();
    pthread_mutex_lock(&buffer_lock);
  }
  write_graph(kernel->launch_buffer);
}

/* Empty the buffer for the next grid; the caller holds tw_chunks_lock. */
static void clear_locked(uint64_t address, const head *seen) {
  const uint64_t bytes = HEAD_BYTES + (seen->errors != 0 ? ERRORS_BYTES : 0);
  if (!tw_chunks_cover_locked(address, bytes)) return;
  head *place = (head *)(uintptr_t)address;
  place->begun = place->submitted = 0;
  place->used_bytes = 0;
  place->errors = 0;
  if (seen->errors != 0) memset(place + 1, 0, ERRORS_BYTES);
}

/* Return NULL if there is no memory; the context then ends, so none is freed. */
static struct tw_children *allocate(const head *seen, uint32_t count) {
  struct tw_children *children = calloc(1, sizeof *children);
  if (children != NULL) {
    children->records = malloc(seen->used_bytes);
    children->index = malloc(count * sizeof children->index[0]);
  }
  if (children == NULL || children->records == NULL || children->index == NULL) return NULL;
  children->count = children->left = count;
  children->record_bytes = seen->used_bytes;
  return children;
}

/* Copy the records of a buffer. */
static struct tw_children *copy_records(uint64_t variable) {
  uint64_t address = 0;
  head seen = {0};
  struct tw_children *children = NULL;
  const char *wrong = NULL;
  tw_chunks_lock();
  bool live = read_locked(&address, variable, sizeof address);
  if (live && address != 0) live = read_locked(&seen, address, sizeof seen);
  /* Of those that were begun when there was no more room, the counts have some too many. */
  const uint64_t count = seen.submitted < seen.limit ? seen.submitted : seen.limit;
  if (count > TESSERA_MAX_PENDING_LAUNCHES) wrong = "a kernel launched more than can be pending";
  if (seen.used_bytes > seen.capacity_bytes) seen.used_bytes = seen.capacity_bytes;
  if (seen.used_bytes > MAX_RECORD_BYTES) wrong = "a kernel launched with too many parameters";
  if (live && wrong == NULL && count != 0) {
    children = allocate(&seen, (uint32_t)count);
    if (children == NULL)
      wrong = "no memory for what a kernel launched";
    else
      live = read_locked(children->records, seen.records, seen.used_bytes) &&
             read_locked(children->index, seen.index, count * sizeof children->index[0]);
  }
  if (live && wrong == NULL && address != 0 && (seen.begun | seen.submitted | seen.errors) != 0)
    clear_locked(address, &seen);
  tw_chunks_unlock();
  if (!live) wrong = "the buffer of a kernel's launches is not in live memory";
  if (wrong != NULL) reject(address, wrong);
  return children;
}

struct tw_children *tw_children_take(const tessera_worker_kernel *kernel, const request *parent) {
  if (kernel->launch_buffer == 0) return NULL;
  struct tw_children *children = tw_timelines_frozen() ? NULL : copy_records(kernel->launch_buffer);
  pthread_mutex_unlock(&buffer_lock);
  if (children == NULL) return NULL;
  children->depth = parent->depth;
  children->stack_bytes = parent->slot.body.launch.stack_bytes;
  children->multiprocessors = parent->slot.body.launch.multiprocessors;
  return children;
}

void tw_children_free(struct tw_children *children) {
  free(children->records);
  free(children->index);
  free(children);
}

bool tw_children_remain(const struct tw_children *children) { return children->left != 0; }

static void copy_out(const struct tw_children *children, uint32_t i, record *to) {
  const uint64_t offset = children->index[i];
  if (offset % HEAD_BYTES != 0 || children->record_bytes < HEAD_BYTES ||
      offset > children->record_bytes - HEAD_BYTES)
    reject(0, "a record of a kernel's launch is misplaced");
  memcpy(to, children->records + offset, sizeof *to);
}

static void require_live(uint64_t address, uint64_t bytes, const char *why) {
  tw_chunks_lock();
  const bool live = tw_chunks_cover_locked(address, bytes);
  tw_chunks_unlock();
  if (live) return;
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_ADDRESS,
                  .error = CUDA_ERROR_ILLEGAL_ADDRESS,
                  .address = address,
                  .message = why});
}

static void fill_launch(const struct tw_children *children, const record *one, uint64_t offset,
                        request *r) {
  const uint64_t bytes = one->parameter_bytes;
  if (bytes > TESSERA_MAX_PARAMETER_BYTES || bytes > children->record_bytes - offset - HEAD_BYTES)
    reject(0, "the parameters of a kernel's launch are misplaced");
  tessera_launch_body *body = &r->slot.body.launch;
  *body = (tessera_launch_body){.kernel = one->kernel,
                                .shared_bytes = one->shared_bytes,
                                .parameter_bytes = one->parameter_bytes,
                                .stack_bytes = children->stack_bytes,
                                .multiprocessors = children->multiprocessors};
  memcpy(body->grid, one->grid, sizeof body->grid);
  memcpy(body->block, one->block, sizeof body->block);
  const uint8_t *parameters = children->records + offset + HEAD_BYTES;
  const uint64_t inline_bytes =
      bytes < TESSERA_INLINE_PARAMETER_BYTES ? bytes : TESSERA_INLINE_PARAMETER_BYTES;
  memcpy(body->parameters, parameters, inline_bytes);
  memcpy(r->parameters, parameters, bytes);
  r->slot.opcode = TESSERA_OPCODE_LAUNCH;
  /* A tail launch replaces its parent. */
  r->depth = children->depth + (one->tail == 0);
  if (r->depth > TESSERA_MAX_LAUNCH_DEPTH) reject(0, "kernels launch one another too deeply");
}

static void fill(const struct tw_children *children, const record *one, uint64_t offset,
                 request *r) {
  r->slot = (tessera_slot){0};
  r->depth = 0;
  switch (one->kind) {
    case KIND_LAUNCH:
      fill_launch(children, one, offset, r);
      break;
    case KIND_COPY:
      require_live(one->copy.destination, one->copy.bytes,
                   "the destination of a copy by a kernel is not in live memory");
      require_live(one->copy.source, one->copy.bytes,
                   "the source of a copy by a kernel is not in live memory");
      r->slot.opcode = TESSERA_OPCODE_COPY;
      r->slot.body.copy = (tessera_copy_body){.destination = one->copy.destination,
                                              .source = one->copy.source,
                                              .bytes = one->copy.bytes};
      break;
    case KIND_FILL:
      require_live(one->fill.destination, one->fill.count,
                   "the destination of a fill by a kernel is not in live memory");
      r->slot.opcode = TESSERA_OPCODE_SET;
      r->slot.body.set = (tessera_set_body){.destination = one->fill.destination,
                                            .count = one->fill.count,
                                            .pattern = one->fill.value & 0xff,
                                            .width_bytes = 1};
      break;
    case KIND_GRAPH:
      r->slot.opcode = TESSERA_OPCODE_LIST;
      r->slot.body.list = (tessera_list_body){.address = one->graph.list,
                                              .slots = one->graph.slots,
                                              .when = TESSERA_WHEN_ALWAYS};
      r->tail = one->tail != 0;
      break;
    case KIND_UNLOADED:
      tw_die(&(fault){.kind = TESSERA_FAULT_KIND_COMPILE,
                      .error = CUDA_ERROR_NOT_SUPPORTED,
                      .message = "a kernel launched a kernel that could not be loaded;"
                                 " the log of its module has the reason"});
    default:
      reject(0, "a record of a kernel's launch is malformed");
  }
  tw_child_check(r);
}

bool tw_children_next(struct tw_children *children, request *r) {
  while (children->left != 0) {
    if (children->next == children->count) {
      children->next = 0;
      children->tails = true;
    }
    const uint32_t i = children->next++;
    record one;
    copy_out(children, i, &one);
    if ((one.tail != 0) != children->tails) continue;
    children->left--;
    fill(children, &one, children->index[i], r);
    return true;
  }
  return false;
}
