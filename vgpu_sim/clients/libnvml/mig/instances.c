/* GPU instances and compute instances: queries, creation, destruction. gpud validates the
 * changes. */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"
#include "mig/profiles.h"
#include "view/report.h"

/* Return handles of the matching instances, and their number. */
static nvmlReturn_t give(void *made, void **handle) {
  if (!made) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  *handle = made;
  return NVML_SUCCESS;
}

/* Find the instance with this UUID; NULL: it has been destroyed meanwhile. */
static const tessera_instance_record *named(const struct tsr_view *view, const uint8_t *uuid) {
  for (uint32_t i = 0; i < view->instance_count; i++)
    if (memcmp(view->instances[i].uuid, uuid, TESSERA_UUID_BYTES) == 0) return &view->instances[i];
  return NULL;
}

/* Begin a request that changes GPU `device`. */
static nvmlReturn_t begin(nvmlDevice_t device, uint32_t operation,
                          tessera_management_request *request) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_SAMPLED, &found);
  if (result != NVML_SUCCESS) return result;
  if (found.is_mig) return NVML_ERROR_INVALID_ARGUMENT;
  if (!found.node) return NVML_ERROR_NO_PERMISSION;
  if (found.gpu.mig_mode != TESSERA_MIG_MODE_ENABLED) return NVML_ERROR_NOT_SUPPORTED;
  tsr_request_begin(request, operation);
  memcpy(request->uuid, found.gpu.uuid, sizeof request->uuid);
  return NVML_SUCCESS;
}

static nvmlReturn_t create(nvmlDevice_t device, unsigned int profileId, uint32_t start,
                           nvmlGpuInstance_t *gpuInstance) {
  if (!gpuInstance) return NVML_ERROR_INVALID_ARGUMENT;
  tessera_management_request request;
  tessera_management_report report;
  nvmlReturn_t result =
      begin(device, TESSERA_MANAGEMENT_OPERATION_CREATE_GPU_INSTANCE, &request);
  if (result != NVML_SUCCESS) return result;
  request.profile = profileId;
  request.start = start;
  result = tsr_view_change(&request, &report);
  if (result != NVML_SUCCESS) return result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  const tessera_instance_record *made = named(view, report.uuid);
  result = give(made ? tsr_gpu_instance_handle(view, made) : NULL, (void **)gpuInstance);
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profileId,
                                             nvmlGpuInstance_t *gpuInstance) {
  return create(device, profileId, TESSERA_ANY_START, gpuInstance);
}

nvmlReturn_t tsr_nvmlDeviceCreateGpuInstanceWithPlacement(
    nvmlDevice_t device, unsigned int profileId, const nvmlGpuInstancePlacement_t *placement,
    nvmlGpuInstance_t *gpuInstance) {
  if (!placement) return NVML_ERROR_INVALID_ARGUMENT;
  return create(device, profileId, placement->start, gpuInstance);
}

/* A requested change; `profile` and `start` are for a compute instance. */
struct change {
  uint32_t operation, profile, start;
};

/* Request a change of the instance that a handle names. `uuid`, unless NULL, receives the UUID
 * of the new instance. */
static nvmlReturn_t change(const void *handle, enum tsr_handle_kind kind, struct change wanted,
                           uint8_t uuid[TESSERA_UUID_BYTES]) {
  nvmlReturn_t why;
  const struct tsr_view *view = tsr_view(TSR_NOW, &why);
  if (!view) return why;
  const int index = tsr_instance_in(view, handle, kind);
  const bool node = view->node;
  tessera_management_request request;
  tsr_request_begin(&request, wanted.operation);
  request.profile = wanted.profile;
  request.start = wanted.start;
  if (index >= 0) memcpy(request.uuid, view->instances[index].uuid, sizeof request.uuid);
  tsr_view_done();
  if (index < 0) return NVML_ERROR_INVALID_ARGUMENT;
  if (!node) return NVML_ERROR_NO_PERMISSION;
  tessera_management_report report;
  const nvmlReturn_t result = tsr_view_change(&request, &report);
  if (result == NVML_SUCCESS && uuid) memcpy(uuid, report.uuid, sizeof report.uuid);
  return result;
}

nvmlReturn_t tsr_nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpuInstance) {
  const struct change wanted = {TESSERA_MANAGEMENT_OPERATION_DESTROY_GPU_INSTANCE, 0, 0};
  const nvmlReturn_t result = change(gpuInstance, TSR_HANDLE_INSTANCE, wanted, NULL);
  /* A GPU instance with compute instances cannot be destroyed. */
  return result == NVML_ERROR_INSUFFICIENT_RESOURCES ? NVML_ERROR_IN_USE : result;
}

nvmlReturn_t tsr_nvmlComputeInstanceDestroy(nvmlComputeInstance_t computeInstance) {
  const struct change wanted = {TESSERA_MANAGEMENT_OPERATION_DESTROY_COMPUTE_INSTANCE, 0, 0};
  return change(computeInstance, TSR_HANDLE_COMPUTE, wanted, NULL);
}

/* List the GPU's instances of a profile. `*count` receives their number; `handles` has room for
 * all. */
nvmlReturn_t tsr_nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profileId,
                                           nvmlGpuInstance_t *gpuInstances, unsigned int *count) {
  if (!gpuInstances || !count) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  struct tsr_device found;
  result = tsr_device_in(view, device, &found);
  if (result == NVML_SUCCESS &&
      (found.is_mig || !tsr_profile_by_id(view, found.gpu_index, profileId)))
    result = NVML_ERROR_INVALID_ARGUMENT;
  unsigned listed = 0;
  for (uint32_t i = 0; result == NVML_SUCCESS && i < view->instance_count; i++) {
    const tessera_instance_record *one = &view->instances[i];
    if (one->whole || one->gpu != found.gpu_index || one->profile != profileId) continue;
    if (!tsr_is_first_beside(view, i)) continue;
    result = give(tsr_gpu_instance_handle(view, one), (void **)&gpuInstances[listed]);
    listed++;
  }
  if (result == NVML_SUCCESS) *count = listed;
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
                                              nvmlGpuInstance_t *gpuInstance) {
  if (!gpuInstance) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  struct tsr_device found;
  result = tsr_device_in(view, device, &found);
  if (result == NVML_SUCCESS && found.is_mig) result = NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) {
    result = NVML_ERROR_NOT_FOUND;
    for (uint32_t i = 0; i < view->instance_count; i++) {
      const tessera_instance_record *one = &view->instances[i];
      if (!one->whole && one->gpu == found.gpu_index && one->gpu_instance_id == id)
        result = give(tsr_gpu_instance_handle(view, one), (void **)gpuInstance);
    }
  }
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gpuInstance,
                                        nvmlGpuInstanceInfo_t *info) {
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  const int index = tsr_instance_in(view, gpuInstance, TSR_HANDLE_INSTANCE);
  result = NVML_ERROR_INVALID_ARGUMENT;
  if (index >= 0) {
    const tessera_instance_record *one = &view->instances[index];
    *info = (nvmlGpuInstanceInfo_t){.device = tsr_gpu_handle(&view->gpus[one->gpu]),
                                    .id = one->gpu_instance_id,
                                    .profileId = one->profile,
                                    .placement = {one->start, one->size}};
    result = NVML_SUCCESS;
  }
  tsr_view_done();
  return result;
}

/* Create a compute instance. `start` is a compute slice of the GPU instance, or any free one. */
static nvmlReturn_t create_compute(nvmlGpuInstance_t gpuInstance, unsigned int profileId,
                                   uint32_t start, nvmlComputeInstance_t *computeInstance) {
  if (!computeInstance) return NVML_ERROR_INVALID_ARGUMENT;
  const struct change wanted = {TESSERA_MANAGEMENT_OPERATION_CREATE_COMPUTE_INSTANCE, profileId,
                                start};
  uint8_t uuid[TESSERA_UUID_BYTES];
  nvmlReturn_t result = change(gpuInstance, TSR_HANDLE_INSTANCE, wanted, uuid);
  if (result != NVML_SUCCESS) return result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  const tessera_instance_record *made = named(view, uuid);
  result = give(made ? tsr_compute_handle(made) : NULL, (void **)computeInstance);
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpuInstance,
                                                      unsigned int profileId,
                                                      nvmlComputeInstance_t *computeInstance) {
  return create_compute(gpuInstance, profileId, TESSERA_ANY_START, computeInstance);
}

nvmlReturn_t tsr_nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    nvmlGpuInstance_t gpuInstance, unsigned int profileId,
    const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *computeInstance) {
  if (!placement) return NVML_ERROR_INVALID_ARGUMENT;
  return create_compute(gpuInstance, profileId, placement->start, computeInstance);
}

/* List the compute instances of a GPU instance that `wanted` selects: those of a profile, or the
 * one with a number. `*count` receives their number. */
static nvmlReturn_t compute_in(nvmlGpuInstance_t gpuInstance, bool by_profile, unsigned int wanted,
                               nvmlComputeInstance_t *computeInstances, unsigned int *count) {
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  const int first = tsr_instance_in(view, gpuInstance, TSR_HANDLE_INSTANCE);
  result = first < 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
  *count = 0;
  for (uint32_t i = (uint32_t)first; result == NVML_SUCCESS && i < view->instance_count; i++) {
    const tessera_instance_record *one = &view->instances[i];
    if (!tsr_are_beside(one, &view->instances[first])) break;
    const bool is = by_profile ? one->compute_enum == wanted : one->compute_id == wanted;
    if (!tsr_is_mig_device(one) || !is) continue;
    result = give(tsr_compute_handle(one), (void **)&computeInstances[*count]);
    ++*count;
  }
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpuInstance,
                                                    unsigned int profileId,
                                                    nvmlComputeInstance_t *computeInstances,
                                                    unsigned int *count) {
  if (!computeInstances || !count) return NVML_ERROR_INVALID_ARGUMENT;
  return compute_in(gpuInstance, true, profileId, computeInstances, count);
}

nvmlReturn_t tsr_nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gpuInstance,
                                                       unsigned int id,
                                                       nvmlComputeInstance_t *computeInstance) {
  if (!computeInstance) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned int count;
  const nvmlReturn_t result = compute_in(gpuInstance, false, id, computeInstance, &count);
  return result == NVML_SUCCESS && count == 0 ? NVML_ERROR_NOT_FOUND : result;
}

nvmlReturn_t tsr_nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t computeInstance,
                                               nvmlComputeInstanceInfo_t *info) {
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  const int index = tsr_instance_in(view, computeInstance, TSR_HANDLE_COMPUTE);
  result = NVML_ERROR_INVALID_ARGUMENT;
  if (index >= 0) {
    const tessera_instance_record *one = &view->instances[index];
    *info = (nvmlComputeInstanceInfo_t){
        .device = tsr_gpu_handle(&view->gpus[one->gpu]),
        .gpuInstance = tsr_gpu_instance_handle(view, one),
        .id = one->compute_id,
        .profileId = one->compute_enum,
        .placement = {one->compute_id, tsr_compute_slices(one)}};
    result = NVML_SUCCESS;
  }
  tsr_view_done();
  return result;
}
