/* Descriptors of destroyed textures and surfaces. Kernels that were enqueued before may still read
 * one, so its memory is released when the work enqueued until then is done. */
#ifndef TSR_RETIRED_H
#define TSR_RETIRED_H

#include "base/objects.h"

/* How many descriptors a context keeps, at 1 KiB each. */
enum { TSR_MAX_RETIRED = 16384 };

/* The start of a block of malloc, which this file frees. */
struct tsr_retired {
  struct tsr_retired *next;
  uint64_t address;
};

/* Release a descriptor's memory, at once or later. Only if the context keeps TSR_MAX_RETIRED others,
 * wait for its work. */
CUresult tsr_retired_add(struct tsr_context *context, uint64_t context_handle,
                         struct tsr_retired *one);

/* Release the memory of those that no enqueued work can read any more, without waiting. */
void tsr_retired_release(struct tsr_context *context);

#endif
