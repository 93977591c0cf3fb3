/* Device resources: multiprocessors and work queues, of which green contexts have a part. */
#ifndef TSR_RESOURCES_H
#define TSR_RESOURCES_H

#include "base/objects.h"

struct tsr_resources {
  CUdevice device;
  CUdevResource sm, workqueue;
};

/* Return what a descriptor contains; false: there is no such descriptor. */
bool tsr_resources_of(CUdevResourceDesc desc, struct tsr_resources *resources);

/* Log why a green context is refused, and return the error. */
CUresult tsr_resources_refuse_clock(void);
CUresult tsr_resources_refuse_worker(void);

#endif
