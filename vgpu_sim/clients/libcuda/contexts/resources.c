#include "contexts/resources.h"

#include <string.h>

#include "api.h"
#include "base/device.h"
#include "base/refuse.h"

enum { ORIGIN_MAGIC = 0x54535253, MOST_DESCRIPTORS = 4096, MOST_COSCHEDULED = 32 };
enum { ATTRIBUTE_MULTIPROCESSORS = 16, ATTRIBUTE_MAJOR = 75 };
/* CUdevResource.origin: magic, device, how it was made, number of the split. */
enum origin { WHOLE, PART, REST };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct tsr_resources descriptors[MOST_DESCRIPTORS];
static unsigned descriptor_count, split_count;

static unsigned attribute(CUdevice device, unsigned which) {
  const int value = tsr_device_attribute(tsr_device(device), which, 0);
  return value > 0 ? (unsigned)value : 0;
}

/* The least size of a part, and of what is scheduled together: CUDA C++ Programming Guide, "Green
 * Contexts". */
static unsigned alignment_of(CUdevice device) { return attribute(device, ATTRIBUTE_MAJOR) >= 9 ? 8 : 2; }

static CUdevResource make(CUdevice device, enum origin origin, unsigned split, unsigned count,
                          unsigned alignment) {
  CUdevResource made = {.type = CU_DEV_RESOURCE_TYPE_SM,
                        .origin = {ORIGIN_MAGIC, (unsigned)device, origin, split}};
  made.sm.smCount = count;
  made.sm.minSmPartitionSize = made.sm.smCoscheduledAlignment = alignment;
  return made;
}

/* Check a resource that the program passes; its copy is not read again. */
static CUresult check(const CUdevResource *resource) {
  if (resource->type != CU_DEV_RESOURCE_TYPE_SM &&
      resource->type != CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const CUdevice device = (CUdevice)resource->origin[1];
  if (resource->origin[0] != ORIGIN_MAGIC || !tsr_device(device)) return CUDA_ERROR_INVALID_VALUE;
  if (resource->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_SUCCESS;
  const unsigned count = resource->sm.smCount, together = resource->sm.smCoscheduledAlignment;
  return count == 0 || count > attribute(device, ATTRIBUTE_MULTIPROCESSORS) || together == 0 ||
                 together % 2 || together > MOST_COSCHEDULED
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

/* Every stream has a queue of its own, so queues never overlap. */
static CUdevResource workqueues(CUdevice device) {
  CUdevResource made = {.type = CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG,
                        .origin = {ORIGIN_MAGIC, (unsigned)device}};
  made.wqConfig.device = device;
  made.wqConfig.wqConcurrencyLimit = TESSERA_MAX_STREAMS;
  return made;
}

CUresult tsr_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
                                    CUdevResourceType type) {
  if (!tsr_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!resource) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_DEV_RESOURCE_TYPE_SM)
    *resource = make(device, WHOLE, 0, attribute(device, ATTRIBUTE_MULTIPROCESSORS),
                     alignment_of(device));
  else if (type == CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
    *resource = workqueues(device);
  else
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  return CUDA_SUCCESS;
}

static unsigned next_split(void) {
  pthread_mutex_lock(&lock);
  const unsigned split = ++split_count;
  pthread_mutex_unlock(&lock);
  return split;
}

/* Parts cannot be split again before they are a green context's. */
static CUresult check_input(const CUdevResource *input, CUdevResource *copy) {
  if (!input) return CUDA_ERROR_INVALID_VALUE;
  *copy = *input;
  if (copy->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const CUresult result = check(copy);
  if (result != CUDA_SUCCESS) return result;
  return copy->origin[2] == PART ? CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION : CUDA_SUCCESS;
}

static void put_rest(CUdevResource *remainder, const CUdevResource *input, unsigned split,
                     unsigned count) {
  if (!remainder) return;
  memset(remainder, 0, sizeof *remainder);
  if (count == 0) return;
  *remainder = make((CUdevice)input->origin[1], REST, split, count,
                    input->sm.smCoscheduledAlignment);
}

CUresult tsr_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                         const CUdevResource *input, CUdevResource *remainder,
                                         unsigned int flags, unsigned int minCount) {
  enum { KNOWN = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                 CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE };
  enum { LARGEST_CLUSTER = 16 };
  CUdevResource whole;
  const CUresult checked = check_input(input, &whole);
  if (checked != CUDA_SUCCESS) return checked;
  if (!nbGroups || (flags & ~(unsigned)KNOWN) || minCount > whole.sm.smCount)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned unit = whole.sm.smCoscheduledAlignment;
  if (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) unit = 2;
  if (flags & CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE && unit < LARGEST_CLUSTER)
    unit = LARGEST_CLUSTER;
  const unsigned size = minCount ? (minCount + unit - 1) / unit * unit : unit;
  const unsigned most = whole.sm.smCount / size;
  if (most == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned count = result && *nbGroups < most ? *nbGroups : most;
  const unsigned split = next_split();
  for (unsigned i = 0; result && i < count; i++)
    result[i] = make((CUdevice)whole.origin[1], PART, split, size, unit);
  *nbGroups = count;
  put_rest(remainder, &whole, split, whole.sm.smCount - count * size);
  return CUDA_SUCCESS;
}

/* Find the size of a group out of `left` multiprocessors. */
static CUresult size_of(const CU_DEV_SM_RESOURCE_GROUP_PARAMS *group, CUdevice device,
                        unsigned left, unsigned *size, unsigned *together) {
  const bool backfill = group->flags & CU_DEV_SM_RESOURCE_GROUP_BACKFILL;
  if (group->flags & ~(unsigned)CU_DEV_SM_RESOURCE_GROUP_BACKFILL)
    TSR_REFUSE("cuDevSmResourceSplit with a locality domain");
  *together = group->coscheduledSmCount ? group->coscheduledSmCount : alignment_of(device);
  if (*together % 2 || *together > MOST_COSCHEDULED || group->smCount % 2)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *size = group->smCount;
  if (*size == 0) {
    *size = left / (backfill ? 2 : *together) * (backfill ? 2 : *together);
    return CUDA_SUCCESS;
  }
  const bool fits = *size <= left && *size >= *together && (backfill || *size % *together == 0);
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

CUresult tsr_cuDevSmResourceSplit(CUdevResource *result, unsigned int nbGroups,
                                  const CUdevResource *input, CUdevResource *remainder,
                                  unsigned int flags,
                                  CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams) {
  CUdevResource whole;
  const CUresult checked = check_input(input, &whole);
  if (checked != CUDA_SUCCESS) return checked;
  if (flags || !groupParams || nbGroups == 0 || nbGroups > whole.sm.smCount)
    return CUDA_ERROR_INVALID_VALUE;
  const CUdevice device = (CUdevice)whole.origin[1];
  const unsigned split = next_split();
  unsigned left = whole.sm.smCount;
  for (unsigned i = 0; i < nbGroups; i++) {
    unsigned size, together;
    const CUresult found = size_of(&groupParams[i], device, left, &size, &together);
    if (found != CUDA_SUCCESS) return found;
    if (result && size < together) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    left -= size;
    if (result) {
      result[i] = make(device, PART, split, size, together);
      result[i].sm.flags = groupParams[i].flags;
    }
    groupParams[i].smCount = size;
  }
  put_rest(remainder, &whole, split, left);
  return CUDA_SUCCESS;
}

/* Add a resource to what a descriptor contains. */
static CUresult add(struct tsr_resources *all, const CUdevResource *one) {
  const CUresult result = check(one);
  if (result != CUDA_SUCCESS) return result;
  if ((CUdevice)one->origin[1] != all->device) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  CUdevResource *place =
      one->type == CU_DEV_RESOURCE_TYPE_SM ? &all->sm : &all->workqueue;
  if (place->type == CU_DEV_RESOURCE_TYPE_INVALID) {
    *place = *one;
    place->nextResource = NULL;
    return CUDA_SUCCESS;
  }
  if (one->type != CU_DEV_RESOURCE_TYPE_SM || one->origin[3] == 0 ||
      one->origin[3] != place->origin[3] ||
      one->sm.smCoscheduledAlignment != place->sm.smCoscheduledAlignment)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  place->sm.smCount += one->sm.smCount;
  return check(place) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

CUresult tsr_cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                       unsigned int nbResources) {
  if (!phDesc || !resources || nbResources == 0 || nbResources > MOST_DESCRIPTORS)
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_resources all = {.device = (CUdevice)resources[0].origin[1]};
  for (unsigned i = 0; i < nbResources; i++) {
    const CUdevResource one = resources[i];
    const CUresult result = add(&all, &one);
    if (result != CUDA_SUCCESS) return result;
  }
  if (all.sm.type == CU_DEV_RESOURCE_TYPE_INVALID) /* only queues: all multiprocessors */
    tsr_cuDeviceGetDevResource(all.device, &all.sm, CU_DEV_RESOURCE_TYPE_SM);
  if (all.workqueue.type == CU_DEV_RESOURCE_TYPE_INVALID) all.workqueue = workqueues(all.device);
  all.sm.origin[2] = WHOLE; /* of the green context, whose resource may be split */
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  if (descriptor_count < MOST_DESCRIPTORS) {
    descriptors[descriptor_count++] = all;
    *phDesc = (CUdevResourceDesc)(uintptr_t)descriptor_count;
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

bool tsr_resources_of(CUdevResourceDesc desc, struct tsr_resources *resources) {
  const uintptr_t number = (uintptr_t)desc;
  pthread_mutex_lock(&lock);
  const bool found = number != 0 && number <= descriptor_count;
  if (found) *resources = descriptors[number - 1];
  pthread_mutex_unlock(&lock);
  return found;
}

CUresult tsr_resources_refuse_clock(void) {
  TSR_REFUSE("a green context with a modelled clock");
}

CUresult tsr_resources_refuse_worker(void) {
  TSR_REFUSE("a green context with a worker of an older version");
}
