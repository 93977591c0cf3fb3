/* Operations from the parameter structures of the driver API, and back. */
#ifndef TSR_DESCRIBE_H
#define TSR_DESCRIBE_H

#include "nodes/graph.h"

/* Each function checks the parameters and fills in the operation, which then owns its memory. The
 * graphs' lock is needed for child graphs only. */
CUresult tsr_describe_kernel(struct tsr_operation *operation,
                             const CUDA_KERNEL_NODE_PARAMS *parameters);
CUresult tsr_describe_copy(struct tsr_operation *operation, const CUDA_MEMCPY3D *copy,
                           CUcontext context);
CUresult tsr_describe_fill(struct tsr_operation *operation, const CUDA_MEMSET_NODE_PARAMS *fill,
                           CUcontext context);
CUresult tsr_describe_host(struct tsr_operation *operation,
                           const CUDA_HOST_NODE_PARAMS *parameters);
CUresult tsr_describe_event(struct tsr_operation *operation, CUgraphNodeType type, CUevent event);
CUresult tsr_describe_values(struct tsr_operation *operation,
                             const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters);
CUresult tsr_describe_child(struct tsr_operation *operation, CUgraph child, int ownership);
/* `graph` is that of the node; it decides which conditions the node may use. */
CUresult tsr_describe(struct tsr_operation *operation, const struct tsr_graph *graph,
                      const CUgraphNodeParams *parameters);

/* Keep what a kernel node's parameters do not include: attributes and multiprocessors. */
void tsr_keep_settings(struct tsr_operation *operation, const struct tsr_operation *old);

/* Return the parameters of an operation; pointers in them stay valid as long as the node. */
CUDA_KERNEL_NODE_PARAMS tsr_kernel_parameters(const struct tsr_operation *operation);
CUresult tsr_parameters_of(const struct tsr_operation *operation, CUgraphNodeParams *parameters);

#endif
