/* The functions that return what references describe. */
#include "api.h"
#include "textures/reference.h"

/* Return the resource if it is of a type, else NULL. */
static const CUDA_RESOURCE_DESC *resource_of(const struct tsr_reference *one, CUresourcetype type) {
  return one->has_resource && one->resource.resType == type ? &one->resource : NULL;
}

/* Release a reference that was read; `found`: it has what the caller wants. */
static CUresult release(bool found) {
  const CUresult released = tsr_reference_release();
  return found ? released : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef) {
  if (!pdptr) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_RESOURCE_DESC *linear = resource_of(one, CU_RESOURCE_TYPE_LINEAR);
  const CUDA_RESOURCE_DESC *pitched = resource_of(one, CU_RESOURCE_TYPE_PITCH2D);
  if (linear) *pdptr = linear->res.linear.devPtr;
  if (pitched) *pdptr = pitched->res.pitch2D.devPtr;
  return release(linear || pitched);
}

CUresult tsr_cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef) {
  if (!phArray) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_RESOURCE_DESC *array = resource_of(one, CU_RESOURCE_TYPE_ARRAY);
  if (array) *phArray = array->res.array.hArray;
  return release(array);
}

CUresult tsr_cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef) {
  if (!phMipmappedArray) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_RESOURCE_DESC *array = resource_of(one, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
  if (array) *phMipmappedArray = array->res.mipmap.hMipmappedArray;
  return release(array);
}

CUresult tsr_cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef) {
  if (!phArray) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_surface_reference_acquire(hSurfRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  const CUDA_RESOURCE_DESC *array = resource_of(one, CU_RESOURCE_TYPE_ARRAY);
  if (array) *phArray = array->res.array.hArray;
  return release(array);
}

CUresult tsr_cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim) {
  if (!pam || dim < 0 || dim >= 3) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pam = one->sampling.addressMode[dim];
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef) {
  if (!pfm) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pfm = one->sampling.filterMode;
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef) {
  if (!pFormat || !pNumChannels) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pFormat = one->format;
  *pNumChannels = (int)one->channels;
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetMipmapFilterMode(CUfilter_mode *pfm, CUtexref hTexRef) {
  if (!pfm) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pfm = one->sampling.mipmapFilterMode;
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef) {
  if (!pbias) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pbias = one->sampling.mipmapLevelBias;
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
                                         CUtexref hTexRef) {
  if (!pminMipmapLevelClamp || !pmaxMipmapLevelClamp) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pminMipmapLevelClamp = one->sampling.minMipmapLevelClamp;
  *pmaxMipmapLevelClamp = one->sampling.maxMipmapLevelClamp;
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetMaxAnisotropy(int *pmaxAniso, CUtexref hTexRef) {
  if (!pmaxAniso) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pmaxAniso = (int)one->sampling.maxAnisotropy;
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef) {
  if (!pBorderColor) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 4; i++) pBorderColor[i] = one->sampling.borderColor[i];
  return tsr_reference_release();
}

CUresult tsr_cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef) {
  if (!pFlags) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_reference *one = tsr_texture_reference_acquire(hTexRef);
  if (!one) return CUDA_ERROR_INVALID_HANDLE;
  *pFlags = one->sampling.flags;
  return tsr_reference_release();
}
