/* The attributes of cuLaunchKernelEx. */
#ifndef TSR_LAUNCH_ATTRIBUTES_H
#define TSR_LAUNCH_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "driver_types.h"

/* Read a launch's attributes. An attribute that permits or advises something is ignored; one
 * that demands an unsupported feature fails with CUDA_ERROR_NOT_SUPPORTED and is named on
 * stderr. `cluster` gets zeros if no attribute states its size. INVALID_CLUSTER_SIZE: the size has a
 * zero. */
CUresult tsr_launch_attributes(const CUlaunchConfig *config, bool *cooperative,
                               uint32_t cluster[3]);

#endif
