#define _GNU_SOURCE
#include "base/aperture.h"

#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

uint64_t tsr_aperture_base;

static const uint64_t bases[] = TESSERA_APERTURE_BASES;
static const uint64_t reserved_bytes =
    TESSERA_GUARD_BEFORE_BYTES + TESSERA_APERTURE_BYTES + TESSERA_GUARD_AFTER_BYTES;

static void *start_of(uint64_t base) {
  return (void *)(uintptr_t)(base - TESSERA_GUARD_BEFORE_BYTES);
}

bool tsr_aperture_reserve(unsigned *candidate) {
  for (; *candidate < sizeof bases / sizeof *bases; ++*candidate) {
    void *wanted = start_of(bases[*candidate]);
    void *got = mmap(wanted, reserved_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted) {
      tsr_aperture_base = bases[*candidate];
      return true;
    }
    /* Kernels before 4.17 treat the address as a hint. */
    if (got != MAP_FAILED) munmap(got, reserved_bytes);
  }
  return false;
}

void tsr_aperture_release(void) {
  munmap(start_of(tsr_aperture_base), reserved_bytes);
  tsr_aperture_base = 0;
}

bool tsr_aperture_vacate(uint64_t address, uint64_t bytes) {
  return mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}
