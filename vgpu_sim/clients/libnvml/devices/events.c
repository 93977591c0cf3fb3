/* Event sets. Of NVML's events only Xids occur; gpud numbers the Xids of each GPU. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "view/answer.h"
#include "api.h"
#include "clock.h"

enum { MAX_SETS = 256, POLL_MS = 100, NONE = 0xFFFFFFFF };

/* A GPU that a set watches, and the sequence number of its last reported Xid. */
struct watched {
  bool used;
  uint8_t uuid[TESSERA_UUID_BYTES];
  uint64_t reported;
};

struct event_set {
  bool used;
  struct watched gpus[TESSERA_MAX_GPUS];
};

/* Storage for sets. As for devices, a handle is an address that is compared, never dereferenced. */
static struct event_set sets[MAX_SETS];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

/* Find the set that a handle names; NULL: none. The caller holds the guard. */
static struct event_set *set_of(nvmlEventSet_t handle) {
  const uintptr_t offset = (uintptr_t)handle - (uintptr_t)sets;
  if (offset >= sizeof sets || offset % sizeof *sets) return NULL;
  struct event_set *set = &sets[offset / sizeof *sets];
  return set->used ? set : NULL;
}

nvmlReturn_t tsr_nvmlEventSetCreate(nvmlEventSet_t *set) {
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_RESOURCES;
  pthread_mutex_lock(&guard);
  for (size_t i = 0; i < MAX_SETS; i++) {
    if (sets[i].used) continue;
    sets[i] = (struct event_set){.used = true};
    *set = (nvmlEventSet_t)(void *)&sets[i];
    result = NVML_SUCCESS;
    break;
  }
  pthread_mutex_unlock(&guard);
  return result;
}

nvmlReturn_t tsr_nvmlEventSetFree(nvmlEventSet_t set) {
  pthread_mutex_lock(&guard);
  struct event_set *found = set_of(set);
  if (found) found->used = false;
  pthread_mutex_unlock(&guard);
  return found ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t tsr_nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                  unsigned long long *eventTypes) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!eventTypes) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *eventTypes = NVML_EVENT_XID;
  return result;
}

/* Return the sequence number of a GPU's last Xid. */
static uint64_t last_of(const struct tsr_view *view, uint32_t gpu) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < view->xid_count; i++)
    if (view->xids[i].gpu == gpu && view->xids[i].sequence > last) last = view->xids[i].sequence;
  return last;
}

static nvmlReturn_t watch(nvmlEventSet_t handle, const uint8_t *uuid, uint64_t reported) {
  nvmlReturn_t result = NVML_ERROR_INVALID_ARGUMENT;
  pthread_mutex_lock(&guard);
  struct event_set *set = set_of(handle);
  struct watched *room = NULL;
  for (uint32_t i = 0; set && i < TESSERA_MAX_GPUS; i++) {
    struct watched *one = &set->gpus[i];
    if (one->used && memcmp(one->uuid, uuid, sizeof one->uuid) == 0) {
      room = one; /* the GPU was registered before */
      break;
    }
    if (!one->used && !room) room = one;
  }
  if (room && !room->used) {
    room->used = true;
    memcpy(room->uuid, uuid, sizeof room->uuid);
    room->reported = reported;
  }
  if (room) result = NVML_SUCCESS;
  pthread_mutex_unlock(&guard);
  return result;
}

/* Report events from now on. As in NVML, a type that never occurs cannot be registered. */
nvmlReturn_t tsr_nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes,
                                          nvmlEventSet_t set) {
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  struct tsr_device found;
  uint64_t reported = 0;
  result = tsr_device_in(view, device, &found);
  if (result == NVML_SUCCESS) reported = last_of(view, found.gpu_index);
  tsr_view_done();
  if (result != NVML_SUCCESS) return result;
  if (eventTypes & ~(unsigned long long)NVML_EVENT_XID) return NVML_ERROR_NOT_SUPPORTED;
  return eventTypes ? watch(set, found.gpu.uuid, reported) : NVML_SUCCESS;
}

static bool is(const struct watched *one, const struct tsr_view *view, uint32_t gpu) {
  return memcmp(one->uuid, view->gpus[gpu].uuid, sizeof one->uuid) == 0;
}

/* Fill in the next event, if there is one. The caller holds the view and the guard. */
static bool next_event(const struct tsr_view *view, struct event_set *set, nvmlEventData_t *data) {
  struct watched *watched = NULL;
  const tessera_xid_record *first = NULL;
  for (uint32_t i = 0; i < view->xid_count; i++) {
    const tessera_xid_record *xid = &view->xids[i];
    for (uint32_t j = 0; j < TESSERA_MAX_GPUS; j++) {
      struct watched *one = &set->gpus[j];
      /* A restarted gpud counts from one again. */
      if (one->used && is(one, view, xid->gpu) && one->reported > last_of(view, xid->gpu))
        one->reported = 0;
      if (!one->used || xid->sequence <= one->reported ||
          !is(one, view, xid->gpu))
        continue;
      if (first && first->sequence <= xid->sequence) continue;
      first = xid;
      watched = one;
    }
  }
  if (!first) return false;
  watched->reported = first->sequence;
  *data = (nvmlEventData_t){.device = tsr_gpu_handle(&view->gpus[first->gpu]),
                            .eventType = NVML_EVENT_XID,
                            .eventData = first->xid,
                            .gpuInstanceId = NONE,
                            .computeInstanceId = NONE};
  if (first->instance != TESSERA_NO_RECORD && !view->instances[first->instance].whole) {
    data->gpuInstanceId = view->instances[first->instance].gpu_instance_id;
    data->computeInstanceId = view->instances[first->instance].compute_id;
  }
  return true;
}

/* Check once for an event; INVALID_ARGUMENT if the handle names no set. */
static nvmlReturn_t look(nvmlEventSet_t handle, nvmlEventData_t *data) {
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  pthread_mutex_lock(&guard);
  struct event_set *set = set_of(handle);
  result = !set                            ? NVML_ERROR_INVALID_ARGUMENT
           : next_event(view, set, data) ? NVML_SUCCESS
                                           : NVML_ERROR_TIMEOUT;
  pthread_mutex_unlock(&guard);
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                     unsigned int timeoutms) {
  if (!data) return NVML_ERROR_INVALID_ARGUMENT;
  const uint64_t end_ns = tsr_now_ns() + (uint64_t)timeoutms * 1000000u;
  for (;;) {
    const nvmlReturn_t result = look(set, data);
    const uint64_t now_ns = tsr_now_ns();
    if (result != NVML_ERROR_TIMEOUT || now_ns >= end_ns) return result;
    const uint64_t left_ns = end_ns - now_ns, pause_ns = POLL_MS * 1000000u;
    const struct timespec pause = {
        .tv_nsec = (long)(left_ns < pause_ns ? left_ns : pause_ns)};
    nanosleep(&pause, NULL);
  }
}

/* The first version's structure ends before the instance ids. */
nvmlReturn_t tsr_nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data,
                                  unsigned int timeoutms) {
  if (!data) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlEventData_t found;
  const nvmlReturn_t result = tsr_nvmlEventSetWait_v2(set, &found, timeoutms);
  if (result == NVML_SUCCESS) memcpy(data, &found, offsetof(nvmlEventData_t, gpuInstanceId));
  return result;
}
