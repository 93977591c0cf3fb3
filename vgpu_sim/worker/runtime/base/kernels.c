/* The kernels that launches may refer to, and their native code.
 *
 * The owner thread adds and removes kernels; runners look them up without a lock. A runner
 * publishes the handle that it uses (a hazard pointer) and then checks the handle again. Removal
 * hides the handle, and the owner frees the code only when no hazard pointer contains the
 * handle. Handles contain a counter, so none is used twice. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/internal.h"

enum { MAX_KERNELS = 16384, VARIANTS = 16 };

#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

typedef struct variant {
  uint32_t block[3];
  tw_code code;
} variant;

typedef struct kernel_slot {
  uint64_t handle; /* atomic; 0: free */
  tessera_worker_kernel kernel;
  pthread_mutex_t image; /* held while a launch uses the kernel's parameter image */
  variant variants[VARIANTS]; /* under variants_lock, while a hazard protects the slot */
  uint32_t variant_count;     /* number ever added; a new variant replaces the oldest */
  tessera_worker_kernel_usage usage; /* atomics; written under the lock of stats.c */
  struct {
    uint64_t ns;     /* 0: unknown */
    uint64_t blocks; /* of the launch that was measured */
  } expected;        /* atomics, as usage */
} kernel_slot;

static kernel_slot slots[MAX_KERNELS];
static uint64_t handles_given; /* owner thread only */
static uint32_t next_free;     /* owner thread only */
static uint64_t hazards[TW_RUNNERS]; /* atomics: the handle that a runner uses */
static pthread_mutex_t variants_lock = PTHREAD_MUTEX_INITIALIZER;
/* under variants_lock: launches that may get better code */
static tw_launch *provisional[TW_RUNNERS];

static kernel_slot *slot_of(uint64_t handle) { return &slots[handle % MAX_KERNELS]; }

static bool is_used(const kernel_slot *slot) {
  for (uint32_t i = 0; i < TW_RUNNERS; i++) {
    const uint64_t running = __atomic_load_n(&hazards[i], __ATOMIC_SEQ_CST);
    if (running != 0 && slot_of(running) == slot) return true;
  }
  return false;
}

uint64_t tessera_worker_add_kernel(const tessera_worker_kernel *kernel) {
  for (uint32_t tried = 0; tried < MAX_KERNELS; tried++) {
    uint32_t index = next_free;
    next_free = (next_free + 1) % MAX_KERNELS;
    kernel_slot *slot = &slots[index];
    if (__atomic_load_n(&slot->handle, __ATOMIC_RELAXED) != 0 || is_used(slot))
      continue; /* in use, or removed while a launch of it runs */
    slot->kernel = *kernel;
    slot->kernel.name[sizeof slot->kernel.name - 1] = 0;
    pthread_mutex_init(&slot->image, NULL);
    slot->usage = (tessera_worker_kernel_usage){0};
    PUT(slot->expected.ns, 0);
    uint64_t handle = ++handles_given * MAX_KERNELS + index;
    pthread_mutex_lock(&variants_lock); /* better code for the slot's previous kernel may arrive */
    slot->variant_count = 0;
    __atomic_store_n(&slot->handle, handle, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&variants_lock);
    return handle;
  }
  return 0;
}

int tessera_worker_remove_kernel(uint64_t handle) {
  kernel_slot *slot = slot_of(handle);
  if (handle == 0 || __atomic_load_n(&slot->handle, __ATOMIC_RELAXED) != handle) return -ENOENT;
  pthread_mutex_lock(&variants_lock);
  __atomic_store_n(&slot->handle, 0, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&variants_lock);
  return 0;
}

int tessera_worker_kernel_runs(uint64_t handle) {
  for (uint32_t i = 0; i < TW_RUNNERS; i++)
    if (__atomic_load_n(&hazards[i], __ATOMIC_SEQ_CST) == handle) return 1;
  return 0;
}

const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle) {
  kernel_slot *slot = slot_of(handle);
  __atomic_store_n(&hazards[tw_current.runner], handle, __ATOMIC_SEQ_CST);
  if (handle != 0 && __atomic_load_n(&slot->handle, __ATOMIC_SEQ_CST) == handle)
    return &slot->kernel;
  tw_kernel_release();
  return NULL;
}

void tw_kernel_lock_image(uint64_t handle) {
  kernel_slot *slot = slot_of(handle);
  if (slot->kernel.parameter_image != 0) pthread_mutex_lock(&slot->image);
}

void tw_kernel_unlock_image(uint64_t handle) {
  kernel_slot *slot = slot_of(handle);
  if (slot->kernel.parameter_image != 0) pthread_mutex_unlock(&slot->image);
}

void tw_kernel_release(void) {
  __atomic_store_n(&hazards[tw_current.runner], 0, __ATOMIC_RELEASE);
}

static variant *find(kernel_slot *slot, const uint32_t block[3]) {
  uint32_t count = slot->variant_count < VARIANTS ? slot->variant_count : VARIANTS;
  for (uint32_t i = 0; i < count; i++)
    if (memcmp(slot->variants[i].block, block, sizeof slot->variants[i].block) == 0)
      return &slot->variants[i];
  return NULL;
}

static void watch(tw_launch *launch) {
  if (launch->code.provisional) provisional[tw_current.runner] = launch;
}

bool tw_variant_find(tw_launch *launch) {
  pthread_mutex_lock(&variants_lock);
  const variant *v = find(slot_of(launch->context.kernel), launch->context.block);
  if (v != NULL) {
    launch->code = v->code;
    watch(launch);
  }
  pthread_mutex_unlock(&variants_lock);
  return v != NULL;
}

static variant *find_or_add(kernel_slot *slot, const uint32_t block[3]) {
  variant *v = find(slot, block);
  if (v != NULL) return v;
  v = &slot->variants[slot->variant_count++ % VARIANTS];
  *v = (variant){.code = {.provisional = 1}}; /* any code is better than none */
  memcpy(v->block, block, sizeof v->block);
  return v;
}

void tw_variant_add(tw_launch *launch) {
  pthread_mutex_lock(&variants_lock);
  /* Another stream's launch may have requested the code, too, and better code may have arrived. */
  variant *v = find_or_add(slot_of(launch->context.kernel), launch->context.block);
  if (v->code.provisional)
    v->code = launch->code;
  else
    launch->code = v->code;
  watch(launch);
  pthread_mutex_unlock(&variants_lock);
}

void tw_launch_settled(void) {
  pthread_mutex_lock(&variants_lock);
  provisional[tw_current.runner] = NULL;
  pthread_mutex_unlock(&variants_lock);
}

uint32_t tw_variant_replace(const tessera_worker_call *better,
                            const tessera_launch_context *running[TW_RUNNERS]) {
  kernel_slot *slot = slot_of(better->kernel);
  const tw_code code = tw_code_of(better);
  uint32_t improved = 0;
  pthread_mutex_lock(&variants_lock);
  for (uint32_t i = 0; i < TW_RUNNERS; i++) {
    tw_launch *launch = provisional[i];
    if (launch == NULL || launch->context.kernel != better->kernel ||
        memcmp(launch->context.block, better->block, sizeof better->block) != 0)
      continue;
    provisional[i] = NULL;
    launch->better = code;
    __atomic_store_n(&launch->is_improved, 1, __ATOMIC_SEQ_CST);
    running[improved++] = &launch->context;
  }
  /* A removed kernel may still run, but will not be launched again. */
  if (better->kernel != 0 && __atomic_load_n(&slot->handle, __ATOMIC_RELAXED) == better->kernel) {
    find_or_add(slot, better->block)->code = code;
    PUT(slot->expected.ns, 0); /* of the replaced code */
  }
  pthread_mutex_unlock(&variants_lock);
  return improved;
}

/* Store the duration of the longest launch, with exponential decay. */
static void expect(kernel_slot *slot, uint64_t blocks, uint64_t ns) {
  const uint64_t before = GET(slot->expected.ns);
  if (before > ns && blocks <= GET(slot->expected.blocks)) {
    PUT(slot->expected.ns, before - (before - ns) / 4);
    return;
  }
  PUT(slot->expected.blocks, blocks);
  PUT(slot->expected.ns, ns != 0 ? ns : 1);
}

uint64_t tw_kernel_expected_ns(uint64_t handle, uint64_t blocks) {
  const kernel_slot *slot = slot_of(handle);
  const uint64_t ns = GET(slot->expected.ns), before = GET(slot->expected.blocks);
  if (ns == 0) return UINT64_MAX;
  return blocks > before ? (uint64_t)((double)ns * (double)blocks / (double)before) : ns;
}

void tw_kernel_expect_nothing(uint64_t handle) { PUT(slot_of(handle)->expected.ns, 0); }

void tw_kernel_account(uint64_t handle, uint64_t blocks, uint64_t busy_ns) {
  kernel_slot *slot = slot_of(handle);
  PUT(slot->usage.busy_ns, slot->usage.busy_ns + busy_ns);
  PUT(slot->usage.launches, slot->usage.launches + 1);
  expect(slot, blocks, busy_ns);
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
