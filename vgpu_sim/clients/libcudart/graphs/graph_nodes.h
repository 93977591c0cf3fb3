/* Parameters of graph nodes, as the driver describes them. */
#ifndef TSR_GRAPH_NODES_H
#define TSR_GRAPH_NODES_H

#include "driver.h"

struct CUDA_KERNEL_NODE_PARAMS {
  cudaFunction_t function;
  unsigned int grid[3], block[3];
  unsigned int shared_bytes;
  void **parameters;
  void **extra;
  cudaKernel_t kernel; /* used if there is no function */
  CUcontext context;
};

/* The driver's functions on nodes with such parameters. */
extern int cuGraphAddKernelNode_v2(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   const struct CUDA_KERNEL_NODE_PARAMS *parameters);
extern int cuGraphKernelNodeGetParams_v2(cudaGraphNode_t node,
                                         struct CUDA_KERNEL_NODE_PARAMS *parameters);
extern int cuGraphKernelNodeSetParams_v2(cudaGraphNode_t node,
                                         const struct CUDA_KERNEL_NODE_PARAMS *parameters);
extern int cuGraphExecKernelNodeSetParams_v2(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const struct CUDA_KERNEL_NODE_PARAMS *parameters);
extern int cuGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                const cudaGraphNode_t *dependencies, size_t count,
                                const struct CUDA_MEMCPY3D *copy, CUcontext context);
extern int cuGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct CUDA_MEMCPY3D *copy);
extern int cuGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct CUDA_MEMCPY3D *copy);
extern int cuGraphExecMemcpyNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                          const struct CUDA_MEMCPY3D *copy, CUcontext context);
extern int cuGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                const cudaGraphNode_t *dependencies, size_t count,
                                const struct cudaMemsetParams *parameters, CUcontext context);
extern int cuGraphExecMemsetNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                          const struct cudaMemsetParams *parameters,
                                          CUcontext context);
extern int cuGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                          CUcontext context, unsigned int value, unsigned int flags);
extern int cuGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph,
                             const cudaGraphNode_t *dependencies, const void *edges, size_t count,
                             void *parameters);
extern int cuGraphNodeGetParams(cudaGraphNode_t node, void *parameters);
extern int cuGraphNodeSetParams(cudaGraphNode_t node, void *parameters);
extern int cuGraphExecNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, void *parameters);

/* Translate the parameters of a kernel node. */
cudaError_t tsr_kernel_node_of(const struct cudaKernelNodeParams *parameters,
                               struct CUDA_KERNEL_NODE_PARAMS *out);

/* The opposite. */
void tsr_kernel_node_to(const struct CUDA_KERNEL_NODE_PARAMS *driver,
                        struct cudaKernelNodeParams *out);

/* The current context, to which a node belongs. */
CUcontext tsr_node_context(void);

#endif
