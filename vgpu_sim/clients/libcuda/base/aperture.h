/* The address range in which all device addresses of this process lie (docs/launch-protocol.md). */
#ifndef TSR_APERTURE_H
#define TSR_APERTURE_H

#include <stdbool.h>

#include "tessera_abi.h"

/* Base address; 0 until the first context is made, constant from then on. */
extern uint64_t tsr_aperture_base;

/* Reserves the aperture at the first of TESSERA_APERTURE_BASES from `*candidate` on where it fits;
 * false when none is left. `*candidate` becomes the index of the one taken. */
bool tsr_aperture_reserve(unsigned *candidate);
void tsr_aperture_release(void);

/* Makes a range inaccessible again. */
bool tsr_aperture_vacate(uint64_t address, uint64_t bytes);

static inline bool tsr_aperture_holds(uint64_t address) {
  return tsr_aperture_base && address - tsr_aperture_base < TESSERA_APERTURE_BYTES;
}

#endif
