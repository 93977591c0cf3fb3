#include "base/objects.h"

#include <stdlib.h>
#include <string.h>

#include "arrays/array.h"
#include "graphs/exec.h"
#include "nodes/graph.h"
#include "textures/reference.h"

enum { SLAB_OBJECTS = 64, MAX_SLABS = 1 << 14, INDEX_BITS = 20, KIND_SHIFT = 56 };

/* The low bits of a handle are 0, as those of the real driver's, which are pointers: PyTorch keeps a
 * mark in the lowest bit of a stream's number. */
enum { ALIGNMENT_BITS = 4, GENERATION_SHIFT = INDEX_BITS + ALIGNMENT_BITS };

/* How many other objects must have been freed before a freed object is reused. A thread that was
 * preempted while it used an object, which another thread then destroyed, finds the object dead,
 * not changed. */
enum { QUARANTINE = 64 };

struct pool {
  pthread_mutex_t lock;
  void *_Atomic slabs[MAX_SLABS];
  uint32_t count;
  struct tsr_object *first_free, *last_free;
  uint32_t free_count;
};
static struct pool pools[TSR_KIND_COUNT];

static const size_t sizes[TSR_KIND_COUNT] = {
    [TSR_CONTEXT] = sizeof(struct tsr_context),   [TSR_STREAM] = sizeof(struct tsr_stream),
    [TSR_EVENT] = sizeof(struct tsr_event),       [TSR_MODULE] = sizeof(struct tsr_module),
    [TSR_FUNCTION] = sizeof(struct tsr_function), [TSR_LIBRARY] = sizeof(struct tsr_library),
    [TSR_KERNEL] = sizeof(struct tsr_kernel),     [TSR_LINK] = sizeof(struct tsr_link),
    [TSR_GRAPH] = sizeof(struct tsr_graph),       [TSR_NODE] = sizeof(struct tsr_node),
    [TSR_GRAPH_EXEC] = sizeof(struct tsr_exec),   [TSR_USER_OBJECT] = sizeof(struct tsr_user_object),
    [TSR_POOL] = sizeof(struct tsr_pool),
    [TSR_PHYSICAL] = sizeof(struct tsr_physical),
    [TSR_ARRAY] = sizeof(struct tsr_array),       [TSR_MIPMAP] = sizeof(struct tsr_mipmap),
    [TSR_GREEN] = sizeof(struct tsr_green),       [TSR_REFERENCE] = sizeof(struct tsr_reference),
    [TSR_EXTERNAL] = sizeof(struct tsr_external),
};

static struct tsr_object *at(enum tsr_kind kind, uint32_t index) {
  char *slab = atomic_load_explicit(&pools[kind].slabs[index / SLAB_OBJECTS], memory_order_acquire);
  return slab ? (void *)(slab + (index % SLAB_OBJECTS) * sizes[kind]) : NULL;
}

static struct tsr_object *take(enum tsr_kind kind) {
  struct pool *pool = &pools[kind];
  struct tsr_object *object = pool->first_free;
  if (pool->free_count > QUARANTINE) {
    pool->first_free = object->next_free;
    pool->free_count--;
    return object;
  }
  const uint32_t index = pool->count;
  if (index % SLAB_OBJECTS == 0) {
    if (index / SLAB_OBJECTS >= MAX_SLABS) return NULL;
    void *slab = calloc(SLAB_OBJECTS, sizes[kind]);
    if (!slab) return NULL;
    atomic_store_explicit(&pool->slabs[index / SLAB_OBJECTS], slab, memory_order_release);
  }
  pool->count++;
  object = at(kind, index);
  object->index = index;
  return object;
}

void *tsr_object_new(enum tsr_kind kind) {
  pthread_mutex_lock(&pools[kind].lock);
  struct tsr_object *object = take(kind);
  pthread_mutex_unlock(&pools[kind].lock);
  if (object) memset(object + 1, 0, sizes[kind] - sizeof *object);
  return object;
}

uint64_t tsr_object_handle(enum tsr_kind kind, const void *pointer) {
  const struct tsr_object *object = pointer;
  const uint64_t generation = atomic_load_explicit(&object->generation, memory_order_relaxed);
  return (uint64_t)kind << KIND_SHIFT | generation << GENERATION_SHIFT |
         (uint64_t)object->index << ALIGNMENT_BITS;
}

uint64_t tsr_object_publish(enum tsr_kind kind, void *pointer) {
  struct tsr_object *object = pointer;
  atomic_fetch_add_explicit(&object->generation, 1, memory_order_release);
  return tsr_object_handle(kind, pointer);
}

static struct tsr_object *decode(enum tsr_kind kind, uint64_t handle, uint32_t *generation) {
  const uint32_t index = (uint32_t)(handle >> ALIGNMENT_BITS) & ((1u << INDEX_BITS) - 1);
  *generation = (uint32_t)(handle >> GENERATION_SHIFT);
  const bool well_formed =
      handle >> KIND_SHIFT == kind && !(handle & ((1u << ALIGNMENT_BITS) - 1));
  if (!well_formed || !(*generation & 1) || index / SLAB_OBJECTS >= MAX_SLABS) return NULL;
  return at(kind, index);
}

bool tsr_object_retire(enum tsr_kind kind, uint64_t handle) {
  uint32_t generation;
  struct tsr_object *object = decode(kind, handle, &generation);
  return object && atomic_compare_exchange_strong(&object->generation, &generation, generation + 1);
}

void tsr_object_free(enum tsr_kind kind, void *pointer) {
  struct tsr_object *object = pointer;
  struct pool *pool = &pools[kind];
  pthread_mutex_lock(&pool->lock);
  object->next_free = NULL;
  if (pool->free_count++)
    pool->last_free->next_free = object;
  else
    pool->first_free = object;
  pool->last_free = object;
  pthread_mutex_unlock(&pool->lock);
}

bool tsr_object_lives(const void *pointer) {
  const struct tsr_object *object = pointer;
  return atomic_load_explicit(&object->generation, memory_order_acquire) & 1;
}

void *tsr_object_find(enum tsr_kind kind, uint64_t handle) {
  uint32_t generation;
  struct tsr_object *object = decode(kind, handle, &generation);
  if (!object && kind == TSR_CONTEXT && handle >> KIND_SHIFT == TSR_GREEN) {
    const struct tsr_green *green = tsr_object_find(TSR_GREEN, handle);
    return green ? tsr_object_find(TSR_CONTEXT, green->context_handle) : NULL;
  }
  if (!object) return NULL;
  const uint32_t now = atomic_load_explicit(&object->generation, memory_order_acquire);
  return now == generation ? object : NULL;
}
