/* CRC-32 as used by Ethernet and by RoCE's ICRC (polynomial 0x04C11DB7, reflected). */
#ifndef HCA_WIRE_CRC_H
#define HCA_WIRE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Select the fastest variant that gives correct results on this CPU; called once, before the
 * first use. */
void hca_crc_choose(void);
/* Continue from a state; start with UINT32_MAX and invert the result. */
uint32_t hca_crc_update(uint32_t state, const uint8_t *data, size_t bytes);
/* Return what `state` becomes after `bytes` zeros; this is linear in `state`. */
uint32_t hca_crc_shift(uint32_t state, size_t bytes);
/* The selected variant: "vpclmulqdq", "pclmulqdq" or "slicing-by-8". */
const char *hca_crc_way(void);

#endif
