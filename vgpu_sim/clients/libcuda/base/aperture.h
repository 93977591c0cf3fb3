/* The aperture: the address range of all device addresses of this process
 * (docs/launch-protocol.md). */
#ifndef TSR_APERTURE_H
#define TSR_APERTURE_H

#include <stdbool.h>

#include "tessera_abi.h"

/* Base address; 0 until the first context is created, constant from then on. */
extern uint64_t tsr_aperture_base;

/* Reserve the aperture at the first of TESSERA_APERTURE_BASES, from `*candidate` on, at which
 * there is room; false when there is none. `*candidate` becomes the index of the base used. */
bool tsr_aperture_reserve(unsigned *candidate);
void tsr_aperture_release(void);

/* Make a range inaccessible again. */
bool tsr_aperture_vacate(uint64_t address, uint64_t bytes);

static inline bool tsr_aperture_holds(uint64_t address) {
  return tsr_aperture_base && address - tsr_aperture_base < TESSERA_APERTURE_BYTES;
}

#endif
