/* Advice about ranges of managed memory: where it is preferred, which devices access it, and
 * where it was prefetched last. All memory is always accessible, so this only is reported. */
#ifndef TSR_ADVICE_H
#define TSR_ADVICE_H

#include <stdbool.h>

#include "memory_types.h"

struct tsr_advice {
  bool read_mostly;
  uint32_t accessed_by; /* bit i: device i; TSR_ADVICE_HOST: the host */
  CUmemLocation preferred, prefetched; /* type 0: none */
};
enum { TSR_ADVICE_HOST_BIT = 31 };

/* Have `change` edit the advice of each part of a range; false: out of memory. */
bool tsr_advice_change(uint64_t begin, uint64_t bytes,
                       void (*change)(struct tsr_advice *, const void *), const void *state);

/* Return what holds for all of a range: flags and devices that each part has, and locations in
 * which all parts agree. */
struct tsr_advice tsr_advice_of(uint64_t begin, uint64_t bytes);

void tsr_advice_forget(uint64_t begin, uint64_t bytes);

#endif
