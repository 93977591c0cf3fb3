/* Profiles of GPU instances and compute instances, which `nvidia-smi mig -lgip`, `-lgipp` and
 * `-lcip` query. */
#define _GNU_SOURCE
#include "mig/profiles.h"

#include <stdio.h>
#include <string.h>

#include "view/answer.h"
#include "api.h"
#include "view/report.h"

enum { MIB_SHIFT = 20, ENGINE_PROFILES = 1, GI_PROFILES = 0x12, CI_PROFILES = 9 };

/* The members that all layouts of a profile's description share. */
#define OF_GPU_INSTANCE(its)                                                              \
  .id = (its)->profile, .sliceCount = (its)->compute_slices,                              \
  .instanceCount = (its)->max_count, .multiprocessorCount = (its)->multiprocessors,       \
  .copyEngineCount = (its)->engines[0], .decoderCount = (its)->engines[1],                \
  .encoderCount = (its)->engines[2], .jpegCount = (its)->engines[3],                      \
  .ofaCount = (its)->engines[4], .memorySizeMB = (its)->memory_bytes >> MIB_SHIFT
#define OF_COMPUTE_INSTANCE(outer, inner)                                                 \
  .id = (inner)->compute_enum, .sliceCount = (inner)->compute_slices,                     \
  .instanceCount = (inner)->start_count, .multiprocessorCount = (inner)->multiprocessors, \
  .sharedCopyEngineCount = (outer)->engines[0], .sharedDecoderCount = (outer)->engines[1], \
  .sharedEncoderCount = (outer)->engines[2], .sharedJpegCount = (outer)->engines[3],      \
  .sharedOfaCount = (outer)->engines[4]

static const tessera_profile_record *find(const struct tsr_view *view, uint32_t gpu,
                                          unsigned int number, bool is_id) {
  const tessera_gpu_record *its = &view->gpus[gpu];
  for (uint32_t i = 0; i < its->profile_count; i++) {
    const tessera_profile_record *profile = &view->profiles[its->first_profile + i];
    if ((is_id ? profile->profile : profile->profile_enum) == number) return profile;
  }
  return NULL;
}

const tessera_profile_record *tsr_profile_by_enum(const struct tsr_view *view, uint32_t gpu,
                                                  unsigned int number) {
  return find(view, gpu, number, false);
}

const tessera_profile_record *tsr_profile_by_id(const struct tsr_view *view, uint32_t gpu,
                                                unsigned int id) {
  return find(view, gpu, id, true);
}

const tessera_compute_profile *tsr_compute_profile(const tessera_profile_record *profile,
                                                   unsigned int number) {
  for (uint32_t i = 0; i < profile->compute_count; i++)
    if (profile->computes[i].compute_enum == number) return &profile->computes[i];
  return NULL;
}

/* Copy a GPU's profile; NOT_SUPPORTED if its board has none with that number. */
static nvmlReturn_t profile_of(nvmlDevice_t device, unsigned int number, bool is_id,
                               tessera_profile_record *profile) {
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
  if (!view) return result;
  struct tsr_device found;
  result = tsr_device_in(view, device, &found);
  if (result == NVML_SUCCESS && found.is_mig) result = NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS && !is_id && number >= GI_PROFILES)
    result = NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) {
    const tessera_profile_record *its = find(view, found.gpu_index, number, is_id);
    if (its)
      *profile = *its;
    else
      result = is_id ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
  }
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                     nvmlGpuInstanceProfileInfo_t *info) {
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  tessera_profile_record its;
  const nvmlReturn_t result = profile_of(device, profile, false, &its);
  if (result != NVML_SUCCESS) return result;
  *info = (nvmlGpuInstanceProfileInfo_t){OF_GPU_INSTANCE(&its)};
  return NVML_SUCCESS;
}

static void fill_v2(const tessera_profile_record *its, nvmlGpuInstanceProfileInfo_v2_t *info) {
  *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = info->version, OF_GPU_INSTANCE(its)};
  snprintf(info->name, sizeof info->name, "MIG %s", its->name);
}

static void fill_v3(const tessera_profile_record *its, nvmlGpuInstanceProfileInfo_v3_t *info) {
  *info = (nvmlGpuInstanceProfileInfo_v3_t){.version = info->version, OF_GPU_INSTANCE(its)};
  snprintf(info->name, sizeof info->name, "MIG %s", its->name);
}

/* Write the layout that the structure's version, its first member, selects; there are two. */
static nvmlReturn_t versioned(nvmlDevice_t device, unsigned int number, bool is_id,
                              nvmlGpuInstanceProfileInfo_v2_t *info) {
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  const bool third = info->version == NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v3_t, 3);
  if (!third && info->version != NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  tessera_profile_record its;
  const nvmlReturn_t result = profile_of(device, number, is_id, &its);
  if (result != NVML_SUCCESS) return result;
  if (third)
    fill_v3(&its, (nvmlGpuInstanceProfileInfo_v3_t *)info);
  else
    fill_v2(&its, info);
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info) {
  return versioned(device, profile, false, info);
}

nvmlReturn_t tsr_nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device,
                                                          unsigned int profileId,
                                                          nvmlGpuInstanceProfileInfo_v2_t *info) {
  return versioned(device, profileId, true, info);
}

/* Return how many placements there are and, if `*count` has room for all of them, the
 * placements. */
nvmlReturn_t tsr_nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    nvmlDevice_t device, unsigned int profileId, nvmlGpuInstancePlacement_t *placements,
    unsigned int *count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  tessera_profile_record its;
  const nvmlReturn_t result = profile_of(device, profileId, true, &its);
  if (result != NVML_SUCCESS) return result;
  const unsigned room = *count;
  *count = its.start_count;
  if (!placements) return NVML_SUCCESS;
  if (room < its.start_count) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (uint32_t i = 0; i < its.start_count; i++)
    placements[i] = (nvmlGpuInstancePlacement_t){its.starts[i], its.size};
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device,
                                                            unsigned int profileId,
                                                            nvmlGpuInstancePlacement_t *placements,
                                                            unsigned int *count) {
  return tsr_nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profileId, placements, count);
}

/* gpud computes the number, because what fits depends on all instances and not only on
 * placements. */
nvmlReturn_t tsr_nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device,
                                                           unsigned int profileId,
                                                           unsigned int *count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  tessera_profile_record its;
  struct tsr_device found;
  nvmlReturn_t result = profile_of(device, profileId, true, &its);
  if (result == NVML_SUCCESS) result = tsr_gpu(device, TSR_FACTS, &found);
  if (result != NVML_SUCCESS) return result;
  tessera_management_request request;
  tessera_management_report report;
  tsr_request_begin(&request, TESSERA_MANAGEMENT_OPERATION_REMAINING_CAPACITY);
  memcpy(request.uuid, found.gpu.uuid, sizeof request.uuid);
  request.profile = profileId;
  result = tsr_view_change(&request, &report);
  if (result == NVML_SUCCESS) *count = report.remaining;
  return result;
}

/* Copy the profile of a GPU instance, and its compute instance profile with the given number. */
static nvmlReturn_t compute_of(nvmlGpuInstance_t gpuInstance, unsigned int number,
                               tessera_profile_record *outer, tessera_compute_profile *inner) {
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_SAMPLED, &result);
  if (!view) return result;
  const int index = tsr_instance_in(view, gpuInstance, TSR_HANDLE_INSTANCE);
  const tessera_profile_record *profile =
      index < 0 ? NULL
                : tsr_profile_by_id(view, view->instances[index].gpu,
                                    view->instances[index].profile);
  const tessera_compute_profile *compute = profile ? tsr_compute_profile(profile, number) : NULL;
  result = !profile || number >= CI_PROFILES ? NVML_ERROR_INVALID_ARGUMENT
           : !compute                        ? NVML_ERROR_NOT_SUPPORTED
                                             : NVML_SUCCESS;
  if (result == NVML_SUCCESS) {
    *outer = *profile;
    *inner = *compute;
  }
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlGpuInstanceGetComputeInstanceProfileInfo(
    nvmlGpuInstance_t gpuInstance, unsigned int profile, unsigned int engProfile,
    nvmlComputeInstanceProfileInfo_t *info) {
  if (!info || engProfile >= ENGINE_PROFILES) return NVML_ERROR_INVALID_ARGUMENT;
  tessera_profile_record outer;
  tessera_compute_profile inner;
  const nvmlReturn_t result = compute_of(gpuInstance, profile, &outer, &inner);
  if (result != NVML_SUCCESS) return result;
  *info = (nvmlComputeInstanceProfileInfo_t){OF_COMPUTE_INSTANCE(&outer, &inner)};
  return NVML_SUCCESS;
}

/* The third layout is the second one followed by capabilities, of which there are none. */
nvmlReturn_t tsr_nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    nvmlGpuInstance_t gpuInstance, unsigned int profile, unsigned int engProfile,
    nvmlComputeInstanceProfileInfo_v2_t *info) {
  if (!info || engProfile >= ENGINE_PROFILES) return NVML_ERROR_INVALID_ARGUMENT;
  const bool third = info->version == NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v3_t, 3);
  if (!third && info->version != NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  tessera_profile_record outer;
  tessera_compute_profile inner;
  const nvmlReturn_t result = compute_of(gpuInstance, profile, &outer, &inner);
  if (result != NVML_SUCCESS) return result;
  *info = (nvmlComputeInstanceProfileInfo_v2_t){.version = info->version,
                                                OF_COMPUTE_INSTANCE(&outer, &inner)};
  if (inner.compute_slices == outer.compute_slices)
    snprintf(info->name, sizeof info->name, "MIG %s", outer.name);
  else
    snprintf(info->name, sizeof info->name, "MIG %uc.%s", inner.compute_slices, outer.name);
  if (third) ((nvmlComputeInstanceProfileInfo_v3_t *)(void *)info)->capabilities = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    nvmlGpuInstance_t gpuInstance, unsigned int profileId,
    nvmlComputeInstancePlacement_t *placements, unsigned int *count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  tessera_profile_record outer;
  tessera_compute_profile inner;
  const nvmlReturn_t result = compute_of(gpuInstance, profileId, &outer, &inner);
  if (result != NVML_SUCCESS) return result;
  const unsigned room = *count;
  *count = inner.start_count;
  if (!placements) return NVML_SUCCESS;
  if (room < inner.start_count) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (uint32_t i = 0; i < inner.start_count; i++)
    placements[i] = (nvmlComputeInstancePlacement_t){inner.starts[i], inner.compute_slices};
  return NVML_SUCCESS;
}

/* The placements of one profile never overlap, so each free one has room for one more instance. */
nvmlReturn_t tsr_nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gpuInstance,
                                                                    unsigned int profileId,
                                                                    unsigned int *count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  tessera_profile_record outer;
  tessera_compute_profile inner;
  nvmlReturn_t result = compute_of(gpuInstance, profileId, &outer, &inner);
  if (result != NVML_SUCCESS) return result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  const int first = tsr_instance_in(view, gpuInstance, TSR_HANDLE_INSTANCE);
  if (first < 0) result = NVML_ERROR_INVALID_ARGUMENT;
  unsigned taken = 0; /* a bitmap of compute slices */
  for (uint32_t i = (uint32_t)first; result == NVML_SUCCESS && i < view->instance_count; i++) {
    const tessera_instance_record *one = &view->instances[i];
    if (!tsr_are_beside(one, &view->instances[first])) break;
    if (tsr_is_mig_device(one)) taken |= ((1u << tsr_compute_slices(one)) - 1) << one->compute_id;
  }
  if (result == NVML_SUCCESS) *count = 0;
  for (uint32_t i = 0; result == NVML_SUCCESS && i < inner.start_count; i++)
    *count += !(taken & ((1u << inner.compute_slices) - 1) << inner.starts[i]);
  tsr_view_done();
  return result;
}
