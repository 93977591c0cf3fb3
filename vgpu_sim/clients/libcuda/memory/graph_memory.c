#include "memory/graph_memory.h"

#include <stdlib.h>

#include "api.h"
#include "base/device.h"
#include "exchange/health.h"
#include "memory/advice.h"
#include "memory/memory.h"
#include "memory/peers.h"

enum { BUCKETS = 1024 };

struct usage {
  uint64_t bytes, high_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct tsr_graph_memory *buckets[BUCKETS];
static struct usage usages[TESSERA_MAX_GPUS];

static struct tsr_graph_memory **bucket_of(uint64_t address) {
  return &buckets[(address / 256 * UINT64_C(0x9E3779B97F4A7C15)) >> 54];
}

static struct tsr_graph_memory *find(uint64_t address) {
  struct tsr_graph_memory *memory = *bucket_of(address);
  while (memory && memory->address != address) memory = memory->next;
  return memory;
}

static struct usage *usage_of(const struct tsr_graph_memory *memory) {
  return &usages[memory->context->device - tsr_devices];
}

static void add(struct tsr_graph_memory *memory) {
  struct tsr_graph_memory **bucket = bucket_of(memory->address);
  memory->next = *bucket;
  *bucket = memory;
  struct usage *usage = usage_of(memory);
  usage->bytes += memory->parameters.bytesize;
  if (usage->bytes > usage->high_bytes) usage->high_bytes = usage->bytes;
}

static void take(struct tsr_graph_memory **link) {
  struct tsr_graph_memory *memory = *link;
  *link = memory->next;
  usage_of(memory)->bytes -= memory->parameters.bytesize;
}

static enum tsr_use use_of(const CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
  const bool managed = parameters->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  return managed ? TSR_USE_MANAGED : TSR_USE_GRAPH;
}

enum { MOST_DESCRIPTIONS = 1024 };

/* Copy the descriptions of access, and find the other devices that they name. */
static CUresult read_access(const struct tsr_context *context, struct tsr_graph_memory *made,
                            const CUDA_MEM_ALLOC_NODE_PARAMS *parameters, uint32_t *peers) {
  for (size_t i = 0; i < parameters->accessDescCount; i++) {
    const CUmemAccessDesc one = made->access[i] = parameters->accessDescs[i];
    const struct tsr_device *device =
        one.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? tsr_device(one.location.id) : NULL;
    if (!device || one.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
    if (device == context->device) continue;
    if (!tsr_peers_reach(device, context->device)) return CUDA_ERROR_INVALID_DEVICE;
    *peers |= UINT32_C(1) << one.location.id;
  }
  return CUDA_SUCCESS;
}

CUresult tsr_graph_memory_new(struct tsr_context *context,
                              const CUDA_MEM_ALLOC_NODE_PARAMS *parameters,
                              struct tsr_graph_memory **memory) {
  const size_t descriptions = parameters->accessDescCount;
  if (descriptions > MOST_DESCRIPTIONS || (descriptions && !parameters->accessDescs))
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_graph_memory *made = calloc(1, sizeof *made + descriptions * sizeof *made->access);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  struct tsr_sort sort = {.use = use_of(parameters)};
  CUresult result = read_access(context, made, parameters, &sort.peers);
  if (result == CUDA_SUCCESS)
    result = tsr_memory_allocate(context, sort, parameters->bytesize, &made->address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && tsr_graph_memory_trim(NULL))
    result = tsr_memory_allocate(context, sort, parameters->bytesize, &made->address);
  if (result != CUDA_SUCCESS) {
    free(made);
    return result;
  }
  tsr_advice_forget(made->address, parameters->bytesize);
  made->context = context;
  made->users = 1;
  made->parameters = *parameters;
  made->parameters.accessDescs = descriptions ? made->access : NULL;
  made->parameters.dptr = made->address;
  pthread_mutex_lock(&lock);
  add(made);
  pthread_mutex_unlock(&lock);
  *memory = made;
  return CUDA_SUCCESS;
}

void tsr_graph_memory_share(struct tsr_graph_memory *memory) {
  pthread_mutex_lock(&lock);
  memory->users++;
  pthread_mutex_unlock(&lock);
}

static bool is_unused(const struct tsr_graph_memory *memory) {
  return memory->users == 0 && !memory->live;
}

void tsr_graph_memory_release(struct tsr_graph_memory *memory) {
  pthread_mutex_lock(&lock);
  memory->users--;
  const bool unused = is_unused(memory);
  const bool reserved = memory->context != NULL;
  if (unused && reserved) {
    struct tsr_graph_memory **link = bucket_of(memory->address);
    while (*link != memory) link = &(*link)->next;
    take(link);
  }
  pthread_mutex_unlock(&lock);
  if (!unused) return;
  /* The nodes' owner has waited for the work that uses the memory (callbacks/later.h). */
  if (reserved && tsr_context_error(memory->context) == CUDA_SUCCESS)
    tsr_memory_release(memory->address, use_of(&memory->parameters));
  free(memory);
}

bool tsr_graph_memory_is(uint64_t address) {
  pthread_mutex_lock(&lock);
  const bool found = find(address) != NULL;
  pthread_mutex_unlock(&lock);
  return found;
}

void tsr_graph_memory_launched(uint64_t address, bool live) {
  pthread_mutex_lock(&lock);
  struct tsr_graph_memory *memory = find(address);
  if (memory) memory->live = live;
  pthread_mutex_unlock(&lock);
}

bool tsr_graph_memory_is_live(const struct tsr_graph_memory *memory) {
  pthread_mutex_lock(&lock);
  const bool live = memory->live;
  pthread_mutex_unlock(&lock);
  return live;
}

void tsr_graph_memory_own(struct tsr_graph_memory *memory, uint32_t graph) {
  pthread_mutex_lock(&lock);
  if (!memory->owner) memory->owner = graph;
  pthread_mutex_unlock(&lock);
}

bool tsr_graph_memory_may_free(uint64_t address, uint32_t graph, bool *first) {
  pthread_mutex_lock(&lock);
  const struct tsr_graph_memory *memory = find(address);
  *first = memory && !memory->freed_by_other;
  const bool may = memory && !memory->freed_by_owner &&
                   !(memory->owner == graph && memory->freed_by_other);
  pthread_mutex_unlock(&lock);
  return may;
}

void tsr_graph_memory_freed_by(uint64_t address, uint32_t graph) {
  pthread_mutex_lock(&lock);
  struct tsr_graph_memory *memory = find(address);
  if (memory && memory->owner == graph)
    memory->freed_by_owner = true;
  else if (memory)
    memory->freed_by_other = true;
  pthread_mutex_unlock(&lock);
}

CUresult tsr_graph_memory_free(uint64_t address) {
  pthread_mutex_lock(&lock);
  struct tsr_graph_memory *memory = find(address);
  const bool live = memory && memory->live;
  if (live) memory->live = false;
  pthread_mutex_unlock(&lock);
  return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool tsr_graph_memory_trim(const struct tsr_device *device) {
  struct tsr_graph_memory *list = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < BUCKETS; i++) {
    for (struct tsr_graph_memory **link = &buckets[i]; *link;) {
      struct tsr_graph_memory *memory = *link;
      if (!is_unused(memory) || (device && memory->context->device != device)) {
        link = &memory->next;
        continue;
      }
      take(link);
      memory->next = list;
      list = memory;
    }
  }
  pthread_mutex_unlock(&lock);
  const bool any = list != NULL;
  while (list) {
    struct tsr_graph_memory *memory = list;
    list = memory->next;
    tsr_memory_free(memory->address, use_of(&memory->parameters));
    free(memory);
  }
  return any;
}

void tsr_graph_memory_drop(struct tsr_context *context) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < BUCKETS; i++) {
    for (struct tsr_graph_memory **link = &buckets[i]; *link;) {
      struct tsr_graph_memory *memory = *link;
      if (memory->context != context) {
        link = &memory->next;
        continue;
      }
      take(link);
      memory->context = NULL;
      memory->live = false;
      if (memory->users == 0) free(memory);
    }
  }
  pthread_mutex_unlock(&lock);
}

CUresult tsr_cuDeviceGraphMemTrim(CUdevice device) {
  const struct tsr_device *found = tsr_device(device);
  if (!found) return CUDA_ERROR_INVALID_DEVICE;
  tsr_graph_memory_trim(found);
  return CUDA_SUCCESS;
}

static bool is_high(CUgraphMem_attribute attribute) {
  return attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
         attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
}

/* Graphs reserve exactly the memory that they use. */
CUresult tsr_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                          void *value) {
  if (!tsr_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!value || (unsigned)attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  const struct usage usage = usages[device];
  pthread_mutex_unlock(&lock);
  *(cuuint64_t *)value = is_high(attr) ? usage.high_bytes : usage.bytes;
  return CUDA_SUCCESS;
}

/* Both attributes that can be set are one number, which is set back to the present use. */
CUresult tsr_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                          void *value) {
  if (!tsr_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!value || !is_high(attr) || *(const cuuint64_t *)value != 0) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  usages[device].high_bytes = usages[device].bytes;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
