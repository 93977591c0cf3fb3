/* SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a keyed function that costs little more than a copy. */
#ifndef TSR_NCCL_SIPHASH_H
#define TSR_NCCL_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

enum { TSR_SIPHASH_BYTES = 16 }; /* of the key, and of the result */

/* Store the value for eight bytes, `number` in little-endian order, that are followed by `bytes`. */
void tsr_siphash(uint8_t value[TSR_SIPHASH_BYTES], const uint8_t key[TSR_SIPHASH_BYTES], uint64_t number,
                 const void *bytes, size_t size);

#endif
