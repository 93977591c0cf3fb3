/* Kernels that launches may name, and the native code found for them.
 *
 * The owner thread adds and removes, the scheduler looks up without a lock: it publishes the handle
 * that it uses (a hazard) and looks again; removal hides the handle, and the owner waits for the
 * hazard to pass before it takes the code away. Handles carry a count: none is given out twice. */
#include <errno.h>
#include <string.h>

#include "internal.h"

enum { MAX_KERNELS = 16384, VARIANTS = 16 };

typedef struct variant {
  uint32_t block[3];
  tw_code code;
} variant;

typedef struct kernel_slot {
  uint64_t handle; /* atomic; 0: free */
  tessera_worker_kernel kernel;
  variant variants[VARIANTS]; /* scheduler only, while it holds the hazard */
  uint32_t variant_count;     /* ever added; the oldest is replaced */
  tessera_worker_kernel_usage usage; /* atomics; written by the scheduler */
} kernel_slot;

static kernel_slot slots[MAX_KERNELS];
static uint64_t handles_given; /* owner thread only */
static uint32_t next_free;     /* owner thread only */
static uint64_t hazard;        /* atomic: the handle that the scheduler uses */

static kernel_slot *slot_of(uint64_t handle) { return &slots[handle % MAX_KERNELS]; }

uint64_t tessera_worker_add_kernel(const tessera_worker_kernel *kernel) {
  for (uint32_t tried = 0; tried < MAX_KERNELS; tried++) {
    uint32_t index = next_free;
    next_free = (next_free + 1) % MAX_KERNELS;
    kernel_slot *slot = &slots[index];
    uint64_t running = __atomic_load_n(&hazard, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&slot->handle, __ATOMIC_RELAXED) != 0 ||
        (running != 0 && slot_of(running) == slot))
      continue; /* in use, or removed while its launch runs */
    slot->kernel = *kernel;
    slot->kernel.name[sizeof slot->kernel.name - 1] = 0;
    slot->variant_count = 0;
    slot->usage = (tessera_worker_kernel_usage){0};
    uint64_t handle = ++handles_given * MAX_KERNELS + index;
    __atomic_store_n(&slot->handle, handle, __ATOMIC_RELEASE);
    return handle;
  }
  return 0;
}

int tessera_worker_remove_kernel(uint64_t handle) {
  kernel_slot *slot = slot_of(handle);
  if (handle == 0 || __atomic_load_n(&slot->handle, __ATOMIC_RELAXED) != handle) return -ENOENT;
  __atomic_store_n(&slot->handle, 0, __ATOMIC_SEQ_CST);
  return 0;
}

int tessera_worker_kernel_runs(uint64_t handle) {
  return __atomic_load_n(&hazard, __ATOMIC_SEQ_CST) == handle;
}

const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle) {
  kernel_slot *slot = slot_of(handle);
  __atomic_store_n(&hazard, handle, __ATOMIC_SEQ_CST);
  if (handle != 0 && __atomic_load_n(&slot->handle, __ATOMIC_SEQ_CST) == handle)
    return &slot->kernel;
  tw_kernel_release();
  return NULL;
}

void tw_kernel_release(void) { __atomic_store_n(&hazard, 0, __ATOMIC_RELEASE); }

const tw_code *tw_variant_find(uint64_t handle, const uint32_t block[3]) {
  const kernel_slot *slot = slot_of(handle);
  uint32_t count = slot->variant_count < VARIANTS ? slot->variant_count : VARIANTS;
  for (uint32_t i = 0; i < count; i++)
    if (memcmp(slot->variants[i].block, block, sizeof slot->variants[i].block) == 0)
      return &slot->variants[i].code;
  return NULL;
}

const tw_code *tw_variant_add(uint64_t handle, const uint32_t block[3], const tw_code *code) {
  kernel_slot *slot = slot_of(handle);
  variant *v = &slot->variants[slot->variant_count++ % VARIANTS];
  memcpy(v->block, block, sizeof v->block);
  v->code = *code;
  return &v->code;
}

void tw_kernel_account(uint64_t handle, uint64_t busy_ns) {
  tessera_worker_kernel_usage *usage = &slot_of(handle)->usage;
  __atomic_store_n(&usage->busy_ns, usage->busy_ns + busy_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&usage->launches, usage->launches + 1, __ATOMIC_RELAXED);
}

void tessera_worker_get_kernel_usage(uint64_t handle, tessera_worker_kernel_usage *usage) {
  const tessera_worker_kernel_usage *counted = &slot_of(handle)->usage;
  usage->launches = __atomic_load_n(&counted->launches, __ATOMIC_RELAXED);
  usage->busy_ns = __atomic_load_n(&counted->busy_ns, __ATOMIC_RELAXED);
}

void tw_kernel_name(uint64_t handle, char *name, uint64_t size) {
  const kernel_slot *slot = slot_of(handle);
  if (handle == 0 || size > sizeof slot->kernel.name) return;
  memcpy(name, slot->kernel.name, size);
  name[size - 1] = 0;
}
