/* Graph nodes that launch kernels. */
#include "api.h"
#include "code/registry.h"
#include "graphs/graph_nodes.h"

CUcontext tsr_node_context(void) {
  CUcontext context = NULL;
  cuCtxGetCurrent(&context);
  return context;
}

cudaError_t tsr_kernel_node_of(const struct cudaKernelNodeParams *parameters,
                               struct CUDA_KERNEL_NODE_PARAMS *out) {
  if (!parameters) return cudaErrorInvalidValue;
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(parameters->func, &function);
  if (result != cudaSuccess) return result;
  const struct dim3 grid = parameters->gridDim, block = parameters->blockDim;
  *out = (struct CUDA_KERNEL_NODE_PARAMS){
      .function = function,
      .grid = {grid.x, grid.y, grid.z},
      .block = {block.x, block.y, block.z},
      .shared_bytes = parameters->sharedMemBytes,
      .parameters = parameters->kernelParams,
      .extra = parameters->extra,
      .context = tsr_node_context(),
  };
  return cudaSuccess;
}

cudaError_t tsr_cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                       const struct cudaKernelNodeParams *pNodeParams) {
  struct CUDA_KERNEL_NODE_PARAMS driver;
  const cudaError_t result = tsr_kernel_node_of(pNodeParams, &driver);
  if (result != cudaSuccess) return result;
  return cuGraphAddKernelNode_v2(pGraphNode, graph, pDependencies, numDependencies, &driver);
}

void tsr_kernel_node_to(const struct CUDA_KERNEL_NODE_PARAMS *driver,
                        struct cudaKernelNodeParams *out) {
  *out = (struct cudaKernelNodeParams){
      .func = tsr_host_of(driver->function, driver->kernel),
      .gridDim = {driver->grid[0], driver->grid[1], driver->grid[2]},
      .blockDim = {driver->block[0], driver->block[1], driver->block[2]},
      .sharedMemBytes = driver->shared_bytes,
      .kernelParams = driver->parameters,
      .extra = driver->extra,
  };
}

cudaError_t tsr_cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                             struct cudaKernelNodeParams *pNodeParams) {
  struct CUDA_KERNEL_NODE_PARAMS driver = {0};
  if (!pNodeParams) return cudaErrorInvalidValue;
  const int result = cuGraphKernelNodeGetParams_v2(node, &driver);
  if (result == cudaSuccess) tsr_kernel_node_to(&driver, pNodeParams);
  return result;
}

cudaError_t tsr_cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *pNodeParams) {
  struct CUDA_KERNEL_NODE_PARAMS driver;
  const cudaError_t result = tsr_kernel_node_of(pNodeParams, &driver);
  return result == cudaSuccess ? cuGraphKernelNodeSetParams_v2(node, &driver) : result;
}

cudaError_t tsr_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 const struct cudaKernelNodeParams *pNodeParams) {
  struct CUDA_KERNEL_NODE_PARAMS driver;
  const cudaError_t result = tsr_kernel_node_of(pNodeParams, &driver);
  return result == cudaSuccess ? cuGraphExecKernelNodeSetParams_v2(hGraphExec, node, &driver) : result;
}
