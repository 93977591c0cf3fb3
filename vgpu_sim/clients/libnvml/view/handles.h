/* Handles: addresses that nothing is ever read from, each of which names one object by its UUID, a
 * GPU instance by its GPU's and its number: it stays the same while its compute instances come and
 * go, and is that of one made again with its number. Else none is used again for another object: one
 * that has become stale names nothing. */
#ifndef TSR_HANDLES_H
#define TSR_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_abi.h"

enum tsr_handle_kind {
  TSR_HANDLE_NONE,
  TSR_HANDLE_GPU,
  TSR_HANDLE_MIG,      /* a MIG device: the compute instance as a device */
  TSR_HANDLE_INSTANCE, /* a GPU instance */
  TSR_HANDLE_COMPUTE,  /* a compute instance in it */
};

/* The object's handle, the same each time; NULL when there is no room for more. Callers take turns
 * (view.h). */
void *tsr_handle_of(enum tsr_handle_kind kind, const uint8_t uuid[TESSERA_UUID_BYTES],
                    uint32_t number);

/* What a handle names; NONE for whatever was never one. Any thread. */
enum tsr_handle_kind tsr_handle_read(const void *handle, uint8_t uuid[TESSERA_UUID_BYTES],
                                     uint32_t *number);

#endif
