/* Launches described as operations. */
#ifndef TSR_LAUNCH_H
#define TSR_LAUNCH_H

#include "nodes/operation.h"

/* Enqueue a launch in a ring. */
CUresult tsr_launch_enqueue(struct tsr_context *context, uint32_t stream,
                            const struct tsr_kernel_operation *kernel);

/* Check the launch of a kernel node against the limits of its device and kernel. */
CUresult tsr_launch_check_node(struct tsr_context *context,
                               const struct tsr_kernel_operation *launch);

/* Describe a launch, without running it. `launch` has everything but the parameters, which are
 * passed as to cuLaunchKernel. */
CUresult tsr_launch_describe(struct tsr_operation *operation, struct tsr_context *context,
                             const struct tsr_kernel_operation *launch, void **parameters,
                             void **extra);

#endif
