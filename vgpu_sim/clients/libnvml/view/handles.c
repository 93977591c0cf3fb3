#define _GNU_SOURCE
#include "view/handles.h"

#include <stdatomic.h>
#include <string.h>

enum { MAX_HANDLES = 1 << 16 };

struct named {
  uint8_t kind;
  uint32_t number;
  uint8_t uuid[TESSERA_UUID_BYTES];
};

/* Handles are addresses in `space`; `names` has the object for each, at the same index. */
static char space[MAX_HANDLES];
static struct named names[MAX_HANDLES];
static _Atomic uint32_t used;

void *tsr_handle_of(enum tsr_handle_kind kind, const uint8_t uuid[TESSERA_UUID_BYTES],
                    uint32_t number) {
  const uint32_t count = atomic_load_explicit(&used, memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++)
    if (names[i].kind == kind && names[i].number == number &&
        memcmp(names[i].uuid, uuid, TESSERA_UUID_BYTES) == 0)
      return &space[i];
  if (count == MAX_HANDLES) return NULL;
  names[count].kind = (uint8_t)kind;
  names[count].number = number;
  memcpy(names[count].uuid, uuid, TESSERA_UUID_BYTES);
  atomic_store_explicit(&used, count + 1, memory_order_release);
  return &space[count];
}

enum tsr_handle_kind tsr_handle_read(const void *handle, uint8_t uuid[TESSERA_UUID_BYTES],
                                     uint32_t *number) {
  const uintptr_t offset = (uintptr_t)handle - (uintptr_t)space; /* large if it is below `space` */
  if (offset >= atomic_load_explicit(&used, memory_order_acquire)) return TSR_HANDLE_NONE;
  memcpy(uuid, names[offset].uuid, TESSERA_UUID_BYTES);
  *number = names[offset].number;
  return (enum tsr_handle_kind)names[offset].kind;
}
