/* Texture and surface objects. A handle is the device address of a descriptor; the driver finds it
 * in a table, and reads nothing that a handle points to. */
#ifndef TSR_OBJECT_H
#define TSR_OBJECT_H

#include "textures/descriptor.h"

struct tsr_texture_facts {
  enum tsr_descriptor_kind kind;
  struct tsr_context *context;
  uint64_t context_handle;
  uint64_t address;
  bool has_view;
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC texture;
  CUDA_RESOURCE_VIEW_DESC view;
};

/* Write a descriptor to device memory and add the object to the table; `facts->address` becomes its
 * handle. */
CUresult tsr_texture_add(struct tsr_texture_facts *facts, const struct tsr_descriptor *descriptor);

/* Find an object of a kind; false: there is none, or its context has ended. */
bool tsr_texture_find(uint64_t handle, enum tsr_descriptor_kind kind,
                      struct tsr_texture_facts *facts);

/* Remove an object from the table. Its descriptor's memory is released when the work that was
 * enqueued before is done (textures/retired.h). */
CUresult tsr_texture_destroy(uint64_t handle, enum tsr_descriptor_kind kind);

#endif
