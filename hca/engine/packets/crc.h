/* CRC-32 as Ethernet and RoCE's ICRC have it (polynomial 0x04C11DB7, reflected). */
#ifndef HCA_WIRE_CRC_H
#define HCA_WIRE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Chooses the fastest way that gives right results on this CPU; once, before the first use. */
void hca_crc_choose(void);
/* Goes on from a state; begin with UINT32_MAX, and invert the end. */
uint32_t hca_crc_update(uint32_t state, const uint8_t *data, size_t bytes);
/* What `state` becomes after `bytes` zeros; a function that is linear in `state`. */
uint32_t hca_crc_shift(uint32_t state, size_t bytes);
/* Which way was chosen: "vpclmulqdq", "pclmulqdq" or "slicing-by-8". */
const char *hca_crc_way(void);

#endif
