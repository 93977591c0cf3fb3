/* The devices of this process, fixed by the first successful cuInit. */
#ifndef TSR_DEVICE_H
#define TSR_DEVICE_H

#include "base/objects.h"

/* Find the slices (CUDA_VISIBLE_DEVICES); NO_DEVICE if gpud serves none of them. */
CUresult tsr_devices_discover(void);

extern struct tsr_device tsr_devices[TESSERA_MAX_GPUS];
extern int tsr_device_count;

struct tsr_device *tsr_device(CUdevice ordinal); /* NULL: no such device */

/* Return the value of a CUdevice_attribute, or `otherwise` if gpud did not report it. */
int tsr_device_attribute(const struct tsr_device *device, unsigned attribute, int otherwise);

#endif
