/* Handles: addresses that are never dereferenced. Each names one object by the object's UUID. A
 * GPU instance is named by its GPU's UUID and its number: the handle stays the same while
 * compute instances in it come and go, and also names an instance created again with that
 * number. Any other handle is never reused: once stale, it names nothing. */
#ifndef TSR_HANDLES_H
#define TSR_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_abi.h"

enum tsr_handle_kind {
  TSR_HANDLE_NONE,
  TSR_HANDLE_GPU,
  TSR_HANDLE_MIG,      /* a MIG device: a compute instance seen as a device */
  TSR_HANDLE_INSTANCE, /* a GPU instance */
  TSR_HANDLE_COMPUTE,  /* a compute instance in it */
};

/* Return the object's handle, the same each time; NULL if there is no room for more. The caller
 * holds the view (view.h). */
void *tsr_handle_of(enum tsr_handle_kind kind, const uint8_t uuid[TESSERA_UUID_BYTES],
                    uint32_t number);

/* Return the object that a handle names; NONE if it never was a handle. Safe on any thread. */
enum tsr_handle_kind tsr_handle_read(const void *handle, uint8_t uuid[TESSERA_UUID_BYTES],
                                     uint32_t *number);

#endif
