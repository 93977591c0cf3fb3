/* The attributes of cuLaunchKernelEx. */
#ifndef TSR_LAUNCH_ATTRIBUTES_H
#define TSR_LAUNCH_ATTRIBUTES_H

#include <stdbool.h>

#include "driver_types.h"

/* Reads what a launch asks for. An attribute that permits something, or advises, is passed over; one
 * that demands what is not supported is answered CUDA_ERROR_NOT_SUPPORTED, with its name on stderr. */
CUresult tsr_launch_attributes(const CUlaunchConfig *config, bool *cooperative);

#endif
