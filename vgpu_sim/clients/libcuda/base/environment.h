/* The variables that this library alone reads. */
#ifndef TSR_ENVIRONMENT_H
#define TSR_ENVIRONMENT_H

#include <stdint.h>

/* CUDA_VISIBLE_DEVICES: NULL where unset, empty for none. */
const char *tsr_visible_devices(void);

/* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE as tessera_hello has it: of TESSERA_WHOLE_THREAD_SHARE; 0 where
 * unset, and where it is no percentage, which is said once. */
uint32_t tsr_thread_share(void);

/* TESSERA_HANG_NOTICE_S: after how many seconds a kernel that a call waits for is logged; 0: never. */
int tsr_hang_notice_s(void);

#endif
