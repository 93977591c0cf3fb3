/* The devices of this process, fixed by the first successful cuInit. */
#ifndef TSR_DEVICE_H
#define TSR_DEVICE_H

#include "base/objects.h"

/* Looks for slices (CUDA_VISIBLE_DEVICES); NO_DEVICE where there is none that answers. */
CUresult tsr_devices_discover(void);

extern struct tsr_device tsr_devices[TESSERA_MAX_GPUS];
extern int tsr_device_count;

struct tsr_device *tsr_device(CUdevice ordinal); /* NULL: no such device */

/* The value of a CUdevice_attribute, or `otherwise` where gpud did not give it. */
int tsr_device_attribute(const struct tsr_device *device, unsigned attribute, int otherwise);

#endif
