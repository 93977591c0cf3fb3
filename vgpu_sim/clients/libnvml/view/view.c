#define _GNU_SOURCE
#include "view/view.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "patience.h"
#include "view/report.h"
#include "view/sources.h"

static const uint64_t SAMPLED_NS = 100000000;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_view current;
static uint64_t refreshed_ns; /* when `current` was read; 0: there is no view */
static struct tsr_sources sources; /* found last; too large for some threads' stacks */

/* Unlock the view in a forked child, whose only thread does not hold it. */
static void after_fork_in_child(void) {
  turn = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  refreshed_ns = 0;
}

/* Weak, because each libc has only one of them (glibc, musl). */
__attribute__((weak)) extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void),
                                                   void *);
__attribute__((weak)) extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));

__attribute__((constructor)) static void watch_forks(void) {
  if (__register_atfork)
    __register_atfork(NULL, NULL, after_fork_in_child, NULL);
  else if (pthread_atfork)
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static bool wait_for(struct tsr_patience *patience, const char *path, nvmlReturn_t result) {
  return result == NVML_ERROR_TIMEOUT
             ? tsr_patience_wait_for_reply(patience, path, TSR_REPORT_TIMEOUT_S)
             : tsr_patience_wait(patience, path);
}

static nvmlReturn_t refresh(bool patient) {
  struct tsr_patience patience = {0};
  tsr_sources_find(&sources);
  for (;;) {
    struct tsr_view fresh;
    const char *absent = NULL;
    const nvmlReturn_t result = tsr_sources_ask(&sources, &fresh, &absent);
    if (result == NVML_SUCCESS) {
      tsr_view_free(&current);
      current = fresh;
      refreshed_ns = tsr_now_ns();
      return NVML_SUCCESS;
    }
    if (!absent || !patient || !wait_for(&patience, absent, result)) return result;
  }
}

static bool is_old(enum tsr_age age) {
  if (refreshed_ns == 0 || age == TSR_NOW) return true;
  return age == TSR_SAMPLED && tsr_now_ns() - refreshed_ns > SAMPLED_NS;
}

const struct tsr_view *tsr_view(enum tsr_age age, nvmlReturn_t *why) {
  pthread_mutex_lock(&turn);
  *why = is_old(age) ? refresh(true) : NVML_SUCCESS;
  if (*why == NVML_SUCCESS) return &current;
  pthread_mutex_unlock(&turn);
  return NULL;
}

void tsr_view_done(void) { pthread_mutex_unlock(&turn); }

nvmlReturn_t tsr_view_open(void) {
  nvmlReturn_t why;
  if (tsr_view(TSR_NOW, &why)) tsr_view_done();
  return why;
}

void tsr_view_forget(void) {
  pthread_mutex_lock(&turn);
  refreshed_ns = 0;
  tsr_view_free(&current);
  pthread_mutex_unlock(&turn);
}

nvmlReturn_t tsr_view_change(const tessera_management_request *request,
                             tessera_management_report *report) {
  struct tsr_report answer;
  bool absent;
  pthread_mutex_lock(&turn);
  tsr_sources_find(&sources);
  const nvmlReturn_t result = sources.node
                                  ? tsr_ask(sources.management, request, &answer, &absent)
                                  : NVML_ERROR_NO_PERMISSION;
  refreshed_ns = 0;
  pthread_mutex_unlock(&turn);
  if (result == NVML_SUCCESS) *report = answer.head;
  return result;
}

static int find_gpu(const struct tsr_view *view, const uint8_t *uuid) {
  for (uint32_t i = 0; i < view->gpu_count; i++)
    if (memcmp(view->gpus[i].uuid, uuid, TESSERA_UUID_BYTES) == 0) return (int)i;
  return -1;
}

static int find_instance(const struct tsr_view *view, const uint8_t *uuid) {
  for (uint32_t i = 0; i < view->instance_count; i++)
    if (memcmp(view->instances[i].uuid, uuid, TESSERA_UUID_BYTES) == 0) return (int)i;
  return -1;
}

/* The instance that is a whole GPU has the GPU's UUID. */
static void fill_gpu(const struct tsr_view *view, int index, struct tsr_device *device) {
  device->gpu_index = (uint32_t)index;
  device->gpu = view->gpus[index];
  device->instance_index = find_instance(view, device->gpu.uuid);
  if (device->instance_index >= 0) device->instance = view->instances[device->instance_index];
}

nvmlReturn_t tsr_device_in(const struct tsr_view *view, nvmlDevice_t handle,
                           struct tsr_device *device) {
  uint8_t uuid[TESSERA_UUID_BYTES];
  uint32_t number;
  const enum tsr_handle_kind kind = tsr_handle_read(handle, uuid, &number);
  memset(device, 0, sizeof *device);
  device->node = view->node;
  if (kind == TSR_HANDLE_GPU) {
    const int index = find_gpu(view, uuid);
    if (index < 0) return NVML_ERROR_GPU_IS_LOST;
    fill_gpu(view, index, device);
    return device->gpu.lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
  }
  if (kind != TSR_HANDLE_MIG) return NVML_ERROR_INVALID_ARGUMENT;
  device->instance_index = find_instance(view, uuid);
  if (device->instance_index < 0) return NVML_ERROR_INVALID_ARGUMENT; /* it was destroyed */
  device->is_mig = true;
  device->instance = view->instances[device->instance_index];
  if (!tsr_is_mig_device(&device->instance)) return NVML_ERROR_INVALID_ARGUMENT;
  device->gpu_index = device->instance.gpu;
  device->gpu = view->gpus[device->gpu_index];
  return device->gpu.lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t tsr_device(nvmlDevice_t handle, enum tsr_age age, struct tsr_device *device) {
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(age, &result);
  if (!view) return result;
  result = tsr_device_in(view, handle, device);
  tsr_view_done();
  return result;
}

static int find_gpu_instance(const struct tsr_view *view, const uint8_t *gpu, uint32_t id) {
  for (uint32_t i = 0; i < view->instance_count; i++)
    if (view->instances[i].gpu_instance_id == id &&
        memcmp(view->gpus[view->instances[i].gpu].uuid, gpu, TESSERA_UUID_BYTES) == 0)
      return (int)i;
  return -1;
}

int tsr_instance_in(const struct tsr_view *view, const void *handle, enum tsr_handle_kind kind) {
  uint8_t uuid[TESSERA_UUID_BYTES];
  uint32_t number;
  if (tsr_handle_read(handle, uuid, &number) != kind) return -1;
  const int index = kind == TSR_HANDLE_INSTANCE ? find_gpu_instance(view, uuid, number)
                                                : find_instance(view, uuid);
  if (index < 0 || view->instances[index].whole) return -1;
  if (kind == TSR_HANDLE_COMPUTE && !tsr_is_mig_device(&view->instances[index])) return -1;
  return index;
}

nvmlDevice_t tsr_gpu_handle(const tessera_gpu_record *gpu) {
  return tsr_handle_of(TSR_HANDLE_GPU, gpu->uuid, 0);
}

nvmlDevice_t tsr_mig_handle(const tessera_instance_record *instance) {
  return tsr_handle_of(TSR_HANDLE_MIG, instance->uuid, 0);
}

void *tsr_compute_handle(const tessera_instance_record *instance) {
  return tsr_handle_of(TSR_HANDLE_COMPUTE, instance->uuid, 0);
}

void *tsr_gpu_instance_handle(const struct tsr_view *view,
                              const tessera_instance_record *instance) {
  return tsr_handle_of(TSR_HANDLE_INSTANCE, view->gpus[instance->gpu].uuid,
                       instance->gpu_instance_id);
}

bool tsr_is_first_beside(const struct tsr_view *view, uint32_t index) {
  return index == 0 || !tsr_are_beside(&view->instances[index - 1], &view->instances[index]);
}

uint32_t tsr_compute_slices(const tessera_instance_record *instance) {
  static const uint8_t slices[] = {1, 2, 3, 4, 7, 8, 6, 1, 7}; /* index: an enumeration of nvml.h */
  const uint32_t number = instance->compute_enum;
  return number < sizeof slices ? slices[number] : instance->compute_slices;
}
