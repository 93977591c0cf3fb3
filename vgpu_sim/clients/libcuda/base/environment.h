/* Environment variables that only this library reads. */
#ifndef TSR_ENVIRONMENT_H
#define TSR_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

/* TESSERA_NVJITLINK: whether to load Tessera's nvJitLink libraries; true unless it is "0". */
bool tsr_loads_linkers(void);

/* TESSERA_NVRTC: whether to load Tessera's NVRTC libraries; true unless it is "0". */
bool tsr_loads_compilers(void);

/* CUDA_VISIBLE_DEVICES: NULL if unset, empty for no devices. */
const char *tsr_visible_devices(void);

/* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE as in tessera_hello: in units of TESSERA_WHOLE_THREAD_SHARE;
 * 0 if unset or invalid, which is logged once. */
uint32_t tsr_thread_share(void);

/* False if CUDA_MODULE_LOADING is EAGER: all kernels of a module are compiled when it is loaded. */
bool tsr_loads_lazily(void);

/* TESSERA_HANG_NOTICE_S: seconds after which a message names the kernel for which a call waits;
 * 0: never. */
int tsr_hang_notice_s(void);

#endif
