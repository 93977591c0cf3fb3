/* The attributes of cuLaunchKernelEx. */
#ifndef TSR_LAUNCH_ATTRIBUTES_H
#define TSR_LAUNCH_ATTRIBUTES_H

#include <stdbool.h>

#include "driver_types.h"

/* Read a launch's attributes. An attribute that permits or advises something is ignored; one
 * that demands an unsupported feature fails with CUDA_ERROR_NOT_SUPPORTED and is named on
 * stderr. */
CUresult tsr_launch_attributes(const CUlaunchConfig *config, bool *cooperative);

#endif
