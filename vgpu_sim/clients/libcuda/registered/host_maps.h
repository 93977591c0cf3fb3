/* The mappings of the process, as /proc/self/maps lists them. */
#ifndef TSR_HOST_MAPS_H
#define TSR_HOST_MAPS_H

#include <stdbool.h>
#include <stdint.h>

/* A mapping, or the part of one in a range. */
struct tsr_mapping {
  uint64_t begin, end;
  bool readable, writable, executable, shared;
  bool heap;    /* of brk(2) */
  bool special; /* a stack, a device, huge pages or memory of the kernel */
  uint64_t file_offset, inode;
  uint32_t major, minor;
};

/* Find the first mapping that ends after an address, as a whole; false: there is none. */
bool tsr_mapping_from(uint64_t address, struct tsr_mapping *found);

/* Find the first shared mapping of a file, named by `file`'s inode and device, that ends after an
 * address, as a whole. Returns 1; 0: there is none; -1: the mappings cannot be read. */
int tsr_mapping_of(uint64_t address, const struct tsr_mapping *file, struct tsr_mapping *found);

/* Write the mappings of [begin, end) to `found`, in ascending order. Returns their number; -1: the
 * range has a gap, there are more than `room`, or they cannot be read. Uses no heap memory. */
int tsr_mappings_find(uint64_t begin, uint64_t end, struct tsr_mapping *found, int room);

#endif
