/* Texture and surface references: CUDA Driver API, "Texture Reference Management". A reference holds
 * what the program has set. A launch of a kernel that may read it makes a texture object of it, and
 * writes the object's handle to the module's variable. */
#ifndef TSR_REFERENCE_H
#define TSR_REFERENCE_H

#include "textures/descriptor.h"

struct tsr_reference {
  struct tsr_object object;
  enum tsr_descriptor_kind kind;
  struct tsr_reference *next;  /* of all references of modules */
  uint64_t handle;
  struct tsr_context *context; /* NULL: cuTexRefCreate made it, and no kernel names it */
  uint64_t context_handle;
  uint64_t module;   /* handle */
  uint64_t variable; /* device address of the 8 bytes that hold the texture's handle */
  uint64_t bound;    /* that texture, or 0 */
  bool has_resource, changed;
  bool reported; /* since the last change: a refused launch has been logged */
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC sampling;
  CUarray_format format; /* of elements in linear memory, and their channels */
  unsigned channels;
};

/* Return a new reference with the values that CUDA gives it, without a handle; NULL: no memory. */
struct tsr_reference *tsr_reference_new(enum tsr_descriptor_kind kind);

/* Find a live reference and lock all references; NULL, without the lock: there is none. */
struct tsr_reference *tsr_texture_reference_acquire(CUtexref handle);
struct tsr_reference *tsr_surface_reference_acquire(CUsurfref handle);

/* Unlock all references, and return CUDA_SUCCESS. If the program has set something of the reference,
 * its next launch binds it. */
CUresult tsr_reference_release(void);
CUresult tsr_reference_release_changed(struct tsr_reference *reference);

/* Find or make the reference of a module's variable. */
CUresult tsr_reference_of_module(uint64_t module, const char *name, enum tsr_descriptor_kind kind,
                                 uint64_t *handle);

#endif
