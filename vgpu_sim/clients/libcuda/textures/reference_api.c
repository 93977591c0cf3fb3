/* The functions that return references, and those that set what references describe. */
#include <math.h>

#include "api.h"
#include "base/device.h"
#include "copies/copy.h"
#include "modules/function.h"
#include "textures/reference.h"

enum { TEXTURE_ALIGNMENT = 14, PARAMETER_DEFAULT = -1 }; /* a device attribute; CU_PARAM_TR_DEFAULT */
enum {
  KNOWN_FLAGS = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION,
};

CUresult tsr_cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name) {
  if (!pTexRef || !name) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle;
  const CUresult result = tsr_reference_of_module((uint64_t)(uintptr_t)hmod, name,
                                                  TSR_DESCRIPTOR_TEXTURE, &handle);
  if (result == CUDA_SUCCESS) *pTexRef = (CUtexref)(uintptr_t)handle;
  return result;
}

CUresult tsr_cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name) {
  if (!pSurfRef || !name) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle;
  const CUresult result = tsr_reference_of_module((uint64_t)(uintptr_t)hmod, name,
                                                  TSR_DESCRIPTOR_SURFACE, &handle);
  if (result == CUDA_SUCCESS) *pSurfRef = (CUsurfref)(uintptr_t)handle;
  return result;
}

CUresult tsr_cuTexRefCreate(CUtexref *pTexRef) {
  if (!pTexRef) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *made = tsr_reference_new(TSR_DESCRIPTOR_TEXTURE);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *pTexRef = (CUtexref)(uintptr_t)(made->handle = tsr_object_publish(TSR_REFERENCE, made));
  return CUDA_SUCCESS;
}

/* Only references of cuTexRefCreate can be destroyed; those of modules end with them. */
CUresult tsr_cuTexRefDestroy(CUtexref hTexRef) {
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  const bool own = !one->context && tsr_object_retire(TSR_REFERENCE, one->handle);
  if (own) tsr_object_free(TSR_REFERENCE, one);
  tsr_reference_release();
  return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void set_resource(struct tsr_reference *one, CUDA_RESOURCE_DESC resource) {
  one->resource = resource;
  one->has_resource = true;
}

CUresult tsr_cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags) {
  struct tsr_array_facts array;
  if (!tsr_array_read(hArray, &array)) return CUDA_ERROR_INVALID_VALUE;
  if (Flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->format = array.descriptor.Format;
  one->channels = array.descriptor.NumChannels;
  set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY,
                                         .res.array.hArray = hArray});
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
                                       unsigned int Flags) {
  struct tsr_mipmap_facts mipmap;
  struct tsr_array_facts array;
  if (!tsr_mipmap_read(hMipmappedArray, &mipmap) ||
      !tsr_array_read((CUarray)(uintptr_t)mipmap.arrays[0], &array))
    return CUDA_ERROR_INVALID_VALUE;
  if (Flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->format = array.descriptor.Format;
  one->channels = array.descriptor.NumChannels;
  set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                                         .res.mipmap.hMipmappedArray = hMipmappedArray});
  return tsr_reference_release_changed(one);
}

/* Find how far an address is behind the last one that is aligned for textures. */
static CUresult misalignment(uint64_t address, uint64_t bytes, uint64_t *distance) {
  struct tsr_end end;
  const CUresult result = tsr_locate_device(address, bytes, &end);
  if (result != CUDA_SUCCESS || !end.context) return CUDA_ERROR_INVALID_VALUE;
  const int alignment = tsr_device_attribute(end.context->device, TEXTURE_ALIGNMENT, 0);
  if (alignment <= 0) return CUDA_ERROR_INVALID_VALUE;
  *distance = address % (uint64_t)alignment;
  return CUDA_SUCCESS;
}

CUresult tsr_cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr,
                                   size_t bytes) {
  uint64_t distance;
  const CUresult found = misalignment(dptr, bytes, &distance);
  if (found != CUDA_SUCCESS) return found;
  if (ByteOffset) *ByteOffset = distance;
  if (!bytes || (!ByteOffset && distance)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_LINEAR,
                                         .res.linear.devPtr = dptr - distance,
                                         .res.linear.sizeInBytes = bytes + distance});
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                     CUdeviceptr dptr, size_t Pitch) {
  if (!desc || !desc->Height || !desc->Width) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY_DESCRIPTOR shape = *desc;
  uint64_t distance;
  const CUresult found = misalignment(dptr, 1, &distance);
  if (found != CUDA_SUCCESS) return found;
  if (distance) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->format = shape.Format;
  one->channels = shape.NumChannels;
  set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D,
                                         .res.pitch2D.devPtr = dptr,
                                         .res.pitch2D.format = shape.Format,
                                         .res.pitch2D.numChannels = shape.NumChannels,
                                         .res.pitch2D.width = shape.Width,
                                         .res.pitch2D.height = shape.Height,
                                         .res.pitch2D.pitchInBytes = Pitch});
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetAddress2D_v2(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                     CUdeviceptr dptr, size_t Pitch) {
  return tsr_cuTexRefSetAddress2D_v3(hTexRef, desc, dptr, Pitch);
}

CUresult tsr_cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents) {
  struct tsr_element element;
  const CUresult known = tsr_element_of(fmt, (unsigned)NumPackedComponents, &element);
  if (known != CUDA_SUCCESS) return known;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->format = fmt;
  one->channels = (unsigned)NumPackedComponents;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am) {
  if (dim < 0 || dim >= 3 || (unsigned)am > CU_TR_ADDRESS_MODE_BORDER)
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->sampling.addressMode[dim] = am;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
  if ((unsigned)fm > CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->sampling.filterMode = fm;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
  if ((unsigned)fm > CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->sampling.mipmapFilterMode = fm;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias) {
  if (isnan(bias)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->sampling.mipmapLevelBias = bias;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
                                         float maxMipmapLevelClamp) {
  if (isnan(minMipmapLevelClamp) || isnan(maxMipmapLevelClamp)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->sampling.minMipmapLevelClamp = minMipmapLevelClamp;
  one->sampling.maxMipmapLevelClamp = maxMipmapLevelClamp;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso) {
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->sampling.maxAnisotropy = maxAniso;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor) {
  if (!pBorderColor) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 4; i++) one->sampling.borderColor[i] = pBorderColor[i];
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags) {
  if (Flags & ~(unsigned)KNOWN_FLAGS) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  one->sampling.flags = Flags;
  return tsr_reference_release_changed(one);
}

CUresult tsr_cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
  struct tsr_array_facts array;
  if (Flags || !tsr_array_read(hArray, &array)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_reference *one = tsr_surface_reference_acquire(hSurfRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY,
                                         .res.array.hArray = hArray});
  return tsr_reference_release_changed(one);
}

/* Return the module of a function, or 0. */
static uint64_t module_of(uint64_t handle) {
  pthread_mutex_lock(&tsr_module_lock);
  const struct tsr_function *function = tsr_function_find(handle);
  const uint64_t module = function ? tsr_object_handle(TSR_MODULE, function->module) : 0;
  pthread_mutex_unlock(&tsr_module_lock);
  return module;
}

/* A launch binds the references that its kernel reads, so that only the arguments are checked. */
CUresult tsr_cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef) {
  const uint64_t module = module_of((uint64_t)(uintptr_t)hfunc);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (texunit != PARAMETER_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  const bool own = one->module == module;
  tsr_reference_release();
  return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
