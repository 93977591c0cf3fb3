/* Advice, prefetching and attachment of managed memory. Managed memory is shared by host and
 * device, so none of these moves data; they are checked and recorded. */
#include <string.h>

#include "api.h"
#include "base/device.h"
#include "contexts/context.h"
#include "exchange/ring.h"
#include "memory/advice.h"
#include "memory/memory.h"
#include "streams/stream.h"

static bool is_managed(uint64_t address, uint64_t bytes) {
  struct tsr_span span;
  if (bytes == 0 || !tsr_memory_find(address, &span) || span.sort.use != TSR_USE_MANAGED)
    return false;
  return bytes <= span.bytes - (address - span.address);
}

static bool is_place(CUmemLocation place) {
  switch (place.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return tsr_device(place.id) != NULL;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return true;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return place.id == 0;
    default:
      return false;
  }
}

static CUmemLocation place_of(CUdevice device) {
  if (device == CU_DEVICE_CPU) return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
  return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

struct change {
  CUmem_advise advice;
  CUmemLocation place;
};

static uint32_t bit_of(CUmemLocation place) {
  const bool device = place.type == CU_MEM_LOCATION_TYPE_DEVICE;
  return UINT32_C(1) << (device ? (uint32_t)place.id : (uint32_t)TSR_ADVICE_HOST_BIT);
}

static void apply(struct tsr_advice *advice, const void *state) {
  const struct change *change = state;
  switch (change->advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      advice->read_mostly = change->advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      advice->preferred = change->place;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      advice->preferred = (CUmemLocation){0};
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      advice->accessed_by |= bit_of(change->place);
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      advice->accessed_by &= ~bit_of(change->place);
      break;
  }
}

CUresult tsr_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                            CUmemLocation location) {
  TSR_CURRENT(context);
  if (!is_managed(devPtr, count) || advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
      advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  const bool placed = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                      advice >= CU_MEM_ADVISE_SET_ACCESSED_BY;
  if (placed && !is_place(location))
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                        : CUDA_ERROR_INVALID_VALUE;
  const struct change change = {.advice = advice, .place = location};
  return tsr_advice_change(devPtr, count, apply, &change) ? CUDA_SUCCESS
                                                          : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return tsr_cuMemAdvise_v2(devPtr, count, advice, place_of(device));
}

static void set_prefetched(struct tsr_advice *advice, const void *state) {
  advice->prefetched = *(const CUmemLocation *)state;
}

CUresult tsr_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                   unsigned int flags, CUstream hStream) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result == CUDA_SUCCESS) result = tsr_ring_check_capture(context, stream);
  if (result != CUDA_SUCCESS) return result;
  if (flags || !is_managed(devPtr, count)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_place(location))
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                        : CUDA_ERROR_INVALID_VALUE;
  return tsr_advice_change(devPtr, count, set_prefetched, &location) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                CUstream hStream) {
  return tsr_cuMemPrefetchAsync_v2(devPtr, count, place_of(dstDevice), 0, hStream);
}

CUresult tsr_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                     CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                     size_t numPrefetchLocs, unsigned long long flags,
                                     CUstream hStream) {
  if (!dptrs || !sizes || !prefetchLocs || !prefetchLocIdxs || count == 0 ||
      numPrefetchLocs == 0 || numPrefetchLocs > count || flags || prefetchLocIdxs[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0, place = 0; i < count; i++) {
    while (place + 1 < numPrefetchLocs && prefetchLocIdxs[place + 1] <= i) place++;
    const CUresult result =
        tsr_cuMemPrefetchAsync_v2(dptrs[i], sizes[i], prefetchLocs[place], 0, hStream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

/* What is discarded has no defined content until it is written again; keeping the old content is
 * one such content. */
CUresult tsr_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                    unsigned long long flags, CUstream hStream) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result == CUDA_SUCCESS) result = tsr_ring_check_capture(context, stream);
  if (result != CUDA_SUCCESS) return result;
  if (!dptrs || !sizes || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    if (!is_managed(dptrs[i], sizes[i])) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                               CUmemLocation *prefetchLocs,
                                               size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                               unsigned long long flags, CUstream hStream) {
  return tsr_cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                     numPrefetchLocs, flags, hStream);
}

/* Managed memory is host memory, and never moves. */
CUresult tsr_cuMemGetLocationInfo(CUdeviceptr devPtr, size_t size, size_t summaryGranularity,
                                  size_t samplingGranularity, CUmemLocation *location_out) {
  TSR_CURRENT(context);
  (void)context;
  if (!location_out || !is_managed(devPtr, size) || summaryGranularity == 0 ||
      summaryGranularity > size || samplingGranularity > summaryGranularity)
    return CUDA_ERROR_INVALID_VALUE;
  const size_t regions = (size - 1) / summaryGranularity + 1;
  for (size_t i = 0; i < regions; i++)
    location_out[i] = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
  return CUDA_SUCCESS;
}

/* A location in the form of a device ordinal. */
static int ordinal_of(CUmemLocation place) {
  if (place.type == CU_MEM_LOCATION_TYPE_INVALID) return CU_DEVICE_INVALID;
  return place.type == CU_MEM_LOCATION_TYPE_DEVICE ? place.id : CU_DEVICE_CPU;
}

static CUresult list_devices(uint32_t accessed_by, int *list, size_t bytes) {
  size_t room = bytes / sizeof *list;
  if (bytes % sizeof *list || room == 0) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t bit = 0; bit < 32 && room; bit++) {
    if (!(accessed_by >> bit & 1)) continue;
    *list++ = bit == TSR_ADVICE_HOST_BIT ? (int)CU_DEVICE_CPU : (int)bit;
    room--;
  }
  while (room--) *list++ = CU_DEVICE_INVALID;
  return CUDA_SUCCESS;
}

static CUresult write_attribute(void *data, size_t bytes, CUmem_range_attribute attribute,
                                const struct tsr_advice *advice) {
  int value;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      value = advice->read_mostly;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      value = ordinal_of(advice->preferred);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      return list_devices(advice->accessed_by, data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      value = ordinal_of(advice->prefetched);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      value = advice->preferred.type;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      value = advice->preferred.id;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      value = advice->prefetched.type;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      value = advice->prefetched.id;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes != sizeof value) return CUDA_ERROR_INVALID_VALUE;
  memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                    CUdeviceptr devPtr, size_t count) {
  TSR_CURRENT(context);
  if (!data || !is_managed(devPtr, count)) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_advice advice = tsr_advice_of(devPtr, count);
  return write_attribute(data, dataSize, attribute, &advice);
}

CUresult tsr_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
                                     CUmem_range_attribute *attributes, size_t numAttributes,
                                     CUdeviceptr devPtr, size_t count) {
  if (!data || !dataSizes || !attributes || numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < numAttributes; i++) {
    const CUresult result =
        tsr_cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

/* Attachment limits which work may access the memory, so that the host may meanwhile. Here the
 * host always may. */
CUresult tsr_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                    unsigned int flags) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result == CUDA_SUCCESS) result = tsr_ring_check_capture(context, stream);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_span span;
  const bool one = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                   flags == CU_MEM_ATTACH_SINGLE;
  if (!one || !tsr_memory_find(dptr, &span) || span.sort.use != TSR_USE_MANAGED ||
      span.address != dptr || (length != 0 && length != span.bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const bool legacy = !hStream || hStream == CU_STREAM_LEGACY;
  return flags == CU_MEM_ATTACH_SINGLE && legacy ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
