/* cuTexRef..., cuSurfRef... and the functions that return references. */
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

/* Run `body` under the lock with `one`, a texture reference, and `result`; return `result`. */
#define WITH(handle, kind, body)                                                    \
  pthread_mutex_lock(&tsr_reference_lock);                                          \
  struct tsr_reference *const one =                                                 \
      tsr_reference_find((uint64_t)(uintptr_t)(handle), (kind));                    \
  CUresult result = one ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;                 \
  if (one) {                                                                        \
    body;                                                                           \
  }                                                                                 \
  pthread_mutex_unlock(&tsr_reference_lock);                                        \
  return result

/* Read a field into `*out`, or set fields: `checked` is what an argument must be. */
#define GET(out, ...)                                                                    \
  if (!(out)) return CUDA_ERROR_INVALID_VALUE;                                           \
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, *(out) = __VA_ARGS__)
#define SET(checked, ...)                                                                \
  if (!(checked)) return CUDA_ERROR_INVALID_VALUE;                                       \
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, __VA_ARGS__; tsr_reference_change(one))

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
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, {
    if (one->context || !tsr_object_retire(TSR_REFERENCE, one->handle))
      result = CUDA_ERROR_INVALID_VALUE;
    else
      tsr_object_free(TSR_REFERENCE, one);
  });
}

static void set_resource(struct tsr_reference *one, CUDA_RESOURCE_DESC resource) {
  one->resource = resource;
  one->has_resource = true;
}

CUresult tsr_cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags) {
  struct tsr_array_facts array;
  if (!tsr_array_read(hArray, &array)) return CUDA_ERROR_INVALID_VALUE;
  SET(Flags == CU_TRSA_OVERRIDE_FORMAT, one->format = array.descriptor.Format;
      one->channels = array.descriptor.NumChannels;
      set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY,
                                             .res.array.hArray = hArray}));
}

CUresult tsr_cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
                                       unsigned int Flags) {
  struct tsr_mipmap_facts mipmap;
  struct tsr_array_facts array;
  if (!tsr_mipmap_read(hMipmappedArray, &mipmap) ||
      !tsr_array_read((CUarray)(uintptr_t)mipmap.arrays[0], &array))
    return CUDA_ERROR_INVALID_VALUE;
  SET(Flags == CU_TRSA_OVERRIDE_FORMAT, one->format = array.descriptor.Format;
      one->channels = array.descriptor.NumChannels;
      set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                                             .res.mipmap.hMipmappedArray = hMipmappedArray}));
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
  SET(bytes && (ByteOffset || !distance),
      set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_LINEAR,
                                             .res.linear.devPtr = dptr - distance,
                                             .res.linear.sizeInBytes = bytes + distance}));
}

CUresult tsr_cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                     CUdeviceptr dptr, size_t Pitch) {
  if (!desc || !desc->Height || !desc->Width) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY_DESCRIPTOR shape = *desc;
  uint64_t distance;
  const CUresult found = misalignment(dptr, 1, &distance);
  if (found != CUDA_SUCCESS) return found;
  SET(!distance, one->format = shape.Format; one->channels = shape.NumChannels;
      set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D,
                                             .res.pitch2D.devPtr = dptr,
                                             .res.pitch2D.format = shape.Format,
                                             .res.pitch2D.numChannels = shape.NumChannels,
                                             .res.pitch2D.width = shape.Width,
                                             .res.pitch2D.height = shape.Height,
                                             .res.pitch2D.pitchInBytes = Pitch}));
}

CUresult tsr_cuTexRefSetAddress2D_v2(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                     CUdeviceptr dptr, size_t Pitch) {
  return tsr_cuTexRefSetAddress2D_v3(hTexRef, desc, dptr, Pitch);
}

CUresult tsr_cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents) {
  struct tsr_element element;
  const CUresult known = tsr_element_of(fmt, (unsigned)NumPackedComponents, &element);
  if (known != CUDA_SUCCESS) return known;
  SET(true, one->format = fmt; one->channels = (unsigned)NumPackedComponents);
}

CUresult tsr_cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am) {
  SET(dim >= 0 && dim < 3 && (unsigned)am <= CU_TR_ADDRESS_MODE_BORDER,
      one->sampling.addressMode[dim] = am);
}

CUresult tsr_cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
  SET((unsigned)fm <= CU_TR_FILTER_MODE_LINEAR, one->sampling.filterMode = fm);
}

CUresult tsr_cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
  SET((unsigned)fm <= CU_TR_FILTER_MODE_LINEAR, one->sampling.mipmapFilterMode = fm);
}

CUresult tsr_cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias) {
  SET(!isnan(bias), one->sampling.mipmapLevelBias = bias);
}

CUresult tsr_cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
                                         float maxMipmapLevelClamp) {
  SET(!isnan(minMipmapLevelClamp) && !isnan(maxMipmapLevelClamp),
      one->sampling.minMipmapLevelClamp = minMipmapLevelClamp;
      one->sampling.maxMipmapLevelClamp = maxMipmapLevelClamp);
}

CUresult tsr_cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso) {
  SET(true, one->sampling.maxAnisotropy = maxAniso);
}

CUresult tsr_cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor) {
  SET(pBorderColor,
      for (int i = 0; i < 4; i++) one->sampling.borderColor[i] = pBorderColor[i]);
}

CUresult tsr_cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags) {
  SET(!(Flags & ~(unsigned)KNOWN_FLAGS), one->sampling.flags = Flags);
}

/* Whether the reference has a resource of a type. */
static bool has(const struct tsr_reference *one, CUresourcetype type) {
  return one->has_resource && one->resource.resType == type;
}

CUresult tsr_cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef) {
  if (!pdptr) return CUDA_ERROR_INVALID_VALUE;
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, {
    if (has(one, CU_RESOURCE_TYPE_LINEAR))
      *pdptr = one->resource.res.linear.devPtr;
    else if (has(one, CU_RESOURCE_TYPE_PITCH2D))
      *pdptr = one->resource.res.pitch2D.devPtr;
    else
      result = CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef) {
  if (!phArray) return CUDA_ERROR_INVALID_VALUE;
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, {
    if (has(one, CU_RESOURCE_TYPE_ARRAY))
      *phArray = one->resource.res.array.hArray;
    else
      result = CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef) {
  if (!phMipmappedArray) return CUDA_ERROR_INVALID_VALUE;
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, {
    if (has(one, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY))
      *phMipmappedArray = one->resource.res.mipmap.hMipmappedArray;
    else
      result = CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim) {
  if (dim < 0 || dim >= 3) return CUDA_ERROR_INVALID_VALUE;
  GET(pam, one->sampling.addressMode[dim]);
}

CUresult tsr_cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef) {
  GET(pfm, one->sampling.filterMode);
}

CUresult tsr_cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef) {
  if (!pFormat || !pNumChannels) return CUDA_ERROR_INVALID_VALUE;
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, *pFormat = one->format; *pNumChannels = (int)one->channels);
}

CUresult tsr_cuTexRefGetMipmapFilterMode(CUfilter_mode *pfm, CUtexref hTexRef) {
  GET(pfm, one->sampling.mipmapFilterMode);
}

CUresult tsr_cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef) {
  GET(pbias, one->sampling.mipmapLevelBias);
}

CUresult tsr_cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
                                         CUtexref hTexRef) {
  if (!pminMipmapLevelClamp || !pmaxMipmapLevelClamp) return CUDA_ERROR_INVALID_VALUE;
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE, *pminMipmapLevelClamp = one->sampling.minMipmapLevelClamp;
       *pmaxMipmapLevelClamp = one->sampling.maxMipmapLevelClamp);
}

CUresult tsr_cuTexRefGetMaxAnisotropy(int *pmaxAniso, CUtexref hTexRef) {
  GET(pmaxAniso, (int)one->sampling.maxAnisotropy);
}

CUresult tsr_cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef) {
  if (!pBorderColor) return CUDA_ERROR_INVALID_VALUE;
  WITH(hTexRef, TSR_DESCRIPTOR_TEXTURE,
       for (int i = 0; i < 4; i++) pBorderColor[i] = one->sampling.borderColor[i]);
}

CUresult tsr_cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef) {
  GET(pFlags, one->sampling.flags);
}

CUresult tsr_cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
  struct tsr_array_facts array;
  if (Flags || !tsr_array_read(hArray, &array)) return CUDA_ERROR_INVALID_VALUE;
  WITH(hSurfRef, TSR_DESCRIPTOR_SURFACE, {
    set_resource(one, (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY,
                                           .res.array.hArray = hArray});
    tsr_reference_change(one);
  });
}

CUresult tsr_cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef) {
  if (!phArray) return CUDA_ERROR_INVALID_VALUE;
  WITH(hSurfRef, TSR_DESCRIPTOR_SURFACE, {
    if (has(one, CU_RESOURCE_TYPE_ARRAY))
      *phArray = one->resource.res.array.hArray;
    else
      result = CUDA_ERROR_INVALID_VALUE;
  });
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
  SET(texunit == PARAMETER_DEFAULT,
      if (one->module != module) result = CUDA_ERROR_INVALID_VALUE);
}
