/* Arrays: device memory that programs access by copies, textures and surfaces only. */
#ifndef TSR_ARRAY_H
#define TSR_ARRAY_H

#include "arrays/layout.h"

struct tsr_array_facts {
  struct tsr_context *context;
  uint64_t context_handle;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  struct tsr_layout layout;
  uint64_t address;
  bool level; /* of a mipmapped array, which owns the memory */
};

struct tsr_array {
  struct tsr_object object;
  struct tsr_array *next, **place; /* these and the facts are guarded by the lock of array.c */
  struct tsr_array_facts facts;
};

struct tsr_mipmap_facts {
  struct tsr_context *context;
  uint64_t context_handle;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  uint64_t address;
  unsigned levels;
  uint64_t arrays[TSR_MAX_LEVELS]; /* handles */
};

struct tsr_mipmap {
  struct tsr_object object;
  struct tsr_mipmap *next, **place; /* these and the facts are guarded by the lock of mipmap.c */
  struct tsr_mipmap_facts facts;
};

/* Copy what an array is; false if there is no such array, or its context has ended. */
bool tsr_array_read(CUarray handle, struct tsr_array_facts *facts);
bool tsr_mipmap_read(CUmipmappedArray handle, struct tsr_mipmap_facts *facts);

/* Allocate zeroed memory for arrays. */
CUresult tsr_array_allocate(struct tsr_context *context, uint64_t bytes, uint64_t *address);

/* Make an array of memory that exists; its handle is returned in `handle`. */
CUresult tsr_array_add(const struct tsr_array_facts *facts, uint64_t *handle);

/* Invalidate an array's handle; false if there is no such array, or it is not of this sort. */
bool tsr_array_remove(uint64_t handle, bool level, struct tsr_array_facts *facts);

#endif
