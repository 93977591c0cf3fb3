/* Reading of requests from the client's memory: each is copied once, and the copy is checked. */
#define _GNU_SOURCE
#include <string.h>

#include "base/internal.h"

static void reject(const char *why) __attribute__((noreturn));
static void reject(const char *why) {
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                  .error = CUDA_ERROR_LAUNCH_FAILED,
                  .message = why});
}

static const uint8_t *ring_slot(uint32_t stream_index, uint64_t position) {
  return (const uint8_t *)&tw.client->rings[stream_index].slots[position % TESSERA_SLOTS_PER_STREAM];
}

static uint64_t read_head(uint32_t index) {
  return __atomic_load_n(&tw.client->head[index], __ATOMIC_ACQUIRE);
}

/* Copy from memory that the client may be writing; it is not read again afterwards. */
static void copy_once(void *destination, const void *source, uint64_t bytes) {
  memcpy(destination, source, bytes);
  __asm__ volatile("" ::: "memory");
}

static uint64_t continuations_for(uint32_t parameter_bytes) {
  if (parameter_bytes <= TESSERA_INLINE_PARAMETER_BYTES) return 0;
  return (parameter_bytes - TESSERA_INLINE_PARAMETER_BYTES + TESSERA_SLOT_BYTES - 1) /
         TESSERA_SLOT_BYTES;
}

static void check_header(const request *r, uint32_t index, const stream *s) {
  const tessera_slot *slot = &r->slot;
  if (slot->value != s->last_value + 1) reject("a request's value is not the next of its stream");
  if (slot->wait_count > TESSERA_MAX_WAITS) reject("too many waits");
  for (uint32_t i = 0; i < slot->wait_count; i++) {
    if (slot->waits[i].stream >= TESSERA_MAX_STREAMS) reject("a wait names no stream");
    if (slot->waits[i].stream == index && slot->waits[i].value >= slot->value)
      reject("a request waits for itself");
  }
  if (slot->opcode != TESSERA_OPCODE_LAUNCH && slot->continuation_slots != 0)
    reject("only launches have continuation slots");
}

static void check_cluster(const tessera_launch_body *body, const tessera_worker_kernel *kernel) {
  const uint32_t *required = kernel->required_cluster;
  uint32_t size[3] = {1, 1, 1};
  if (body->cluster != 0) {
    if ((body->cluster & ~UINT32_C(0xfff)) != TESSERA_CLUSTERED) reject("a cluster is malformed");
    for (int axis = 0; axis < 3; axis++) size[axis] = (body->cluster >> 4 * axis & 15) + 1u;
    if (required[0] != 0 && memcmp(required, size, sizeof size) != 0)
      reject("the kernel requires another cluster");
  } else if (required[0] != 0) {
    memcpy(size, required, sizeof size);
  }
  if (size[0] * size[1] * size[2] > TESSERA_MAX_CLUSTER_BLOCKS) reject("too many blocks in a cluster");
  for (int axis = 0; axis < 3; axis++)
    if (body->grid[axis] % size[axis] != 0) reject("a grid is not a multiple of its cluster");
}

static void check_geometry(const request *r, const tessera_worker_kernel *kernel) {
  const tessera_launch_body *body = &r->slot.body.launch;
  const uint32_t *grid = body->grid, *block = body->block;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > TESSERA_MAX_GRID_X ||
      grid[1] > TESSERA_MAX_GRID_Y || grid[2] > TESSERA_MAX_GRID_Z)
    reject("grid out of range");
  if (block[0] == 0 || block[1] == 0 || block[2] == 0 || block[0] > TESSERA_MAX_BLOCK_X ||
      block[1] > TESSERA_MAX_BLOCK_Y || block[2] > TESSERA_MAX_BLOCK_Z)
    reject("block out of range");
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (threads > tw.config.max_threads_per_block ||
      (kernel->max_threads != 0 && threads > kernel->max_threads))
    reject("too many threads in a block");
  if (kernel->required_block[0] != 0 && memcmp(kernel->required_block, block, 3 * sizeof *block) != 0)
    reject("the kernel requires another block shape");
  check_cluster(body, kernel);
  if (kernel->shared_bytes > TESSERA_MAX_SHARED_BYTES_OPTIN ||
      body->shared_bytes > TESSERA_MAX_SHARED_BYTES_OPTIN - kernel->shared_bytes)
    reject("too much shared memory");
}

static void check_launch(const request *r) {
  const tessera_launch_body *body = &r->slot.body.launch;
  const tessera_worker_kernel *kernel = tw_kernel_acquire(body->kernel);
  if (kernel == NULL) reject("a launch names no kernel");
  if (body->parameter_bytes != kernel->parameter_bytes ||
      body->parameter_bytes > TESSERA_MAX_PARAMETER_BYTES)
    reject("parameter size is not the kernel's");
  if (body->multiprocessors > tw.config.multiprocessors)
    reject("a launch uses more multiprocessors than there are");
  if (r->slot.continuation_slots != continuations_for(body->parameter_bytes))
    reject("continuation slots do not fit the parameter size");
  check_geometry(r, kernel);
  tw_kernel_release();
}

static void check_list(const tessera_list_body *list) {
  if (list->when > TESSERA_WHEN_DIFFERENT) reject("unknown condition");
  if (list->condition % sizeof(uint32_t) != 0) reject("a list's condition is misaligned");
}

static void check_body(const request *r) {
  switch (r->slot.opcode) {
    case TESSERA_OPCODE_NOP:
    case TESSERA_OPCODE_COPY: /* ranges are checked when it runs: chunks come and go */
      return;
    case TESSERA_OPCODE_SET: {
      const tessera_set_body *set = &r->slot.body.set;
      if (set->width_bytes != 1 && set->width_bytes != 2 && set->width_bytes != 4)
        reject("a fill's width is not 1, 2 or 4");
      if (set->count > TESSERA_APERTURE_BYTES || set->destination % set->width_bytes != 0)
        reject("a fill's range is malformed");
      return;
    }
    case TESSERA_OPCODE_TIMESTAMP:
      if (r->slot.body.timestamp.index >= TESSERA_MAX_TIMESTAMPS)
        reject("a timestamp's index is out of range");
      return;
    case TESSERA_OPCODE_COPIED:
      if (r->slot.body.copied.direction > TESSERA_DIRECTION_DEVICE_TO_PEER)
        reject("a copy goes no way that there is");
      return;
    case TESSERA_OPCODE_AWAIT:
    case TESSERA_OPCODE_WRITE: {
      const tessera_value_body *value = &r->slot.body.value;
      if ((value->width_bytes != 4 && value->width_bytes != 8) ||
          value->address % value->width_bytes != 0)
        reject("a value's place is malformed");
      if (value->condition > TESSERA_CONDITION_RECORDED ||
          (value->condition == TESSERA_CONDITION_RECORDED && value->width_bytes != 8))
        reject("unknown condition");
      return;
    }
    case TESSERA_OPCODE_LAUNCH:
      check_launch(r);
      return;
    case TESSERA_OPCODE_LIST:
      check_list(&r->slot.body.list);
      return;
    default:
      reject("unknown opcode");
  }
}

/* Copy one slot of a list. The memory may be freed at any time, as the place of a copy may. */
static void copy_slot(void *to, const tessera_list_body *list, uint32_t place, uint64_t bytes) {
  const uint64_t address = list->address + (uint64_t)place * TESSERA_SLOT_BYTES;
  tw_chunks_lock();
  const bool live = address >= list->address &&
                    tw_chunks_cover_locked(address, TESSERA_SLOT_BYTES);
  if (live) copy_once(to, (const void *)(uintptr_t)address, bytes);
  tw_chunks_unlock();
  if (!live) reject("a list of requests is not in live memory");
}

/* What a request in a list may do: all that neither waits nor reports. */
static bool may_be_listed(uint16_t opcode) {
  return opcode == TESSERA_OPCODE_NOP || opcode == TESSERA_OPCODE_LAUNCH ||
         opcode == TESSERA_OPCODE_COPY || opcode == TESSERA_OPCODE_SET ||
         opcode == TESSERA_OPCODE_WRITE || opcode == TESSERA_OPCODE_LIST;
}

uint32_t tw_list_fetch(request *r, const tessera_list_body *list, uint32_t place) {
  copy_slot(&r->slot, list, place, sizeof r->slot);
  const uint32_t more = r->slot.continuation_slots;
  if (!may_be_listed(r->slot.opcode)) reject("a list contains a request that it cannot");
  if (r->slot.wait_count != 0) reject("a request in a list has waits");
  if (r->slot.opcode != TESSERA_OPCODE_LAUNCH && more != 0)
    reject("only launches have continuation slots");
  if (more >= list->slots - place) reject("a list ends within a request");
  check_body(r);
  if (r->slot.opcode != TESSERA_OPCODE_LAUNCH) return place + 1;
  const uint32_t bytes = r->slot.body.launch.parameter_bytes;
  uint32_t taken = bytes < TESSERA_INLINE_PARAMETER_BYTES ? bytes : TESSERA_INLINE_PARAMETER_BYTES;
  memcpy(r->parameters, r->slot.body.launch.parameters, taken);
  for (uint32_t i = 1; taken < bytes; i++) {
    const uint32_t part = bytes - taken < TESSERA_SLOT_BYTES ? bytes - taken : TESSERA_SLOT_BYTES;
    copy_slot(r->parameters + taken, list, place + i, part);
    taken += part;
  }
  return place + 1 + more;
}

void tw_child_check(request *r) {
  if (r->slot.opcode == TESSERA_OPCODE_LAUNCH)
    r->slot.continuation_slots = (uint8_t)continuations_for(r->slot.body.launch.parameter_bytes);
  check_body(r);
}

static void copy_parameters(uint32_t index, stream *s) {
  uint32_t bytes = s->next.slot.body.launch.parameter_bytes;
  uint32_t taken = bytes < TESSERA_INLINE_PARAMETER_BYTES ? bytes : TESSERA_INLINE_PARAMETER_BYTES;
  memcpy(s->next.parameters, s->next.slot.body.launch.parameters, taken);
  for (uint64_t i = 0; taken < bytes; i++) {
    uint32_t part = bytes - taken < TESSERA_SLOT_BYTES ? bytes - taken : TESSERA_SLOT_BYTES;
    copy_once(s->next.parameters + taken, ring_slot(index, s->tail + i), part);
    taken += part;
  }
}

static void advance_tail(uint32_t index, stream *s, uint64_t slots) {
  s->tail += slots;
  __atomic_store_n(&tw.page->tail[index], s->tail, __ATOMIC_RELEASE);
}

bool tw_ring_fetch(uint32_t index, stream *s) {
  if (s->pending && s->awaited == 0) return true;
  uint64_t head = read_head(index);
  if (head - s->tail > TESSERA_SLOTS_PER_STREAM) reject("a ring's head is out of range");
  if (!s->pending) {
    if (head == s->tail) return false;
    copy_once(&s->next.slot, ring_slot(index, s->tail), sizeof s->next.slot);
    check_header(&s->next, index, s);
    check_body(&s->next);
    s->last_value = s->next.slot.value;
    s->pending = true;
    advance_tail(index, s, 1);
    s->awaited = s->next.slot.continuation_slots ? s->tail + s->next.slot.continuation_slots : 0;
  }
  if (s->awaited != 0 && head < s->awaited) return false;
  if (s->next.slot.opcode == TESSERA_OPCODE_LAUNCH) copy_parameters(index, s);
  advance_tail(index, s, s->next.slot.continuation_slots);
  s->awaited = 0;
  return true;
}

bool tw_ring_has_news(uint32_t index, const stream *s) {
  uint64_t head = __atomic_load_n(&tw.client->head[index], __ATOMIC_SEQ_CST);
  if (!s->pending) return head != s->tail;
  return s->awaited != 0 && head - s->tail >= s->awaited - s->tail;
}
