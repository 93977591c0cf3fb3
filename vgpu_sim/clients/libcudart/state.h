/* The driver, and the context that a thread's calls use. */
#ifndef TSR_STATE_H
#define TSR_STATE_H

#include "driver.h"

/* Initialise the driver. */
cudaError_t tsr_use_driver(void);

/* Make a context current: the one that the program has set by the driver API, or else the primary
 * context of the thread's device. */
cudaError_t tsr_use_context(void);

/* The device of the current context, or the one that the thread has chosen. */
int tsr_device(void);

/* The number of devices, after tsr_use_driver. */
int tsr_device_count(void);

/* Make a device the thread's, with its primary context. */
cudaError_t tsr_set_device(int device);

/* A device's primary context. */
cudaError_t tsr_primary(int device, CUcontext *context);

/* End a device's primary context. */
cudaError_t tsr_reset_device(int device);

#endif
