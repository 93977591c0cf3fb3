/* Graph nodes whose type is in their parameters. */
#include <string.h>

#include "api.h"
#include "graphs/graph_nodes.h"
#include "memory/shapes.h"

enum { KERNEL = 0, MEMCPY = 1, MEMSET = 2, CONDITIONAL = 13 };

/* The runtime's and the driver's structure of parameters have the same size and beginning; they
 * differ within the union for some types. */
struct node_params {
  int type;
  int reserved[3];
  union {
    char bytes[232];
    struct {
      struct cudaKernelNodeParams kernel;
      CUcontext kernel_context; /* what follows is used since version 13 */
      int kernel_handle;        /* 0: kernel.func is the host's address */
    };
    struct CUDA_KERNEL_NODE_PARAMS driver_kernel;
    struct {
      int flags;
      int reserved;
      CUcontext context; /* reserved before version 13 */
      struct cudaMemcpy3DParms copy;
    } memcpy;
    struct {
      int flags;
      int reserved;
      CUcontext context;
      struct CUDA_MEMCPY3D copy;
    } driver_memcpy;
    struct {
      void *target;
      size_t pitch;
      unsigned int value, element_bytes;
      size_t width, height;
      CUcontext context; /* the driver's only, before version 13 */
    } memset;
    struct {
      cudaGraphConditionalHandle handle;
      int type;
      unsigned int size;
      cudaGraph_t *graphs;
      CUcontext context; /* the driver's only, before version 13 */
    } conditional;
  };
  long long reserved_at_end;
};
_Static_assert(sizeof(struct node_params) == 256, "the layout of cudaGraphNodeParams");

/* Translate the parameters; what the driver returns in them is copied back by return_results. */
static cudaError_t translate(const struct node_params *given, struct node_params *driver) {
  if (!given) return cudaErrorInvalidValue;
  *driver = *given;
  cudaError_t result = cudaSuccess;
  if (given->type == KERNEL) {
    memset(driver->bytes, 0, sizeof driver->bytes);
    result = tsr_kernel_node_of(&given->kernel, &driver->driver_kernel);
  } else if (given->type == MEMCPY) {
    memset(driver->bytes, 0, sizeof driver->bytes);
    driver->driver_memcpy.flags = given->memcpy.flags;
    driver->driver_memcpy.context = tsr_node_context();
    result = tsr_box_of(&given->memcpy.copy, &driver->driver_memcpy.copy);
  } else if (given->type == MEMSET) {
    driver->memset.context = tsr_node_context();
  } else if (given->type == CONDITIONAL) {
    driver->conditional.context = tsr_node_context();
  }
  return result;
}

/* A conditional node returns the graphs of its bodies, and an allocation its address. */
static void return_results(const struct node_params *driver, struct node_params *given) {
  if (given->type == KERNEL || given->type == MEMCPY || given->type == MEMSET) return;
  if (given->type == CONDITIONAL)
    given->conditional.graphs = driver->conditional.graphs;
  else
    memcpy(given->bytes, driver->bytes, sizeof given->bytes);
}

static cudaError_t add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                       const void *edges, size_t count, void *parameters) {
  struct node_params driver;
  cudaError_t result = translate(parameters, &driver);
  if (result != cudaSuccess) return result;
  result = cuGraphAddNode_v2(node, graph, dependencies, edges, count, &driver);
  if (result == cudaSuccess) return_results(&driver, parameters);
  return result;
}

#if TSR_CUDART >= 13
cudaError_t tsr_cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t *pDependencies, const void *dependencyData,
                                 size_t numDependencies, void *nodeParams) {
  return add(pGraphNode, graph, pDependencies, dependencyData, numDependencies, nodeParams);
}
#else
cudaError_t tsr_cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                 void *nodeParams) {
  return add(pGraphNode, graph, pDependencies, NULL, numDependencies, nodeParams);
}

cudaError_t tsr_cudaGraphAddNode_v2(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                    const cudaGraphNode_t *pDependencies, const void *dependencyData,
                                    size_t numDependencies, void *nodeParams) {
  return add(pGraphNode, graph, pDependencies, dependencyData, numDependencies, nodeParams);
}
#endif

#if TSR_CUDART >= 13
cudaError_t tsr_cudaGraphNodeGetParams(cudaGraphNode_t node, void *nodeParams) {
  struct node_params driver;
  if (!nodeParams) return cudaErrorInvalidValue;
  memset(&driver, 0, sizeof driver);
  const cudaError_t result = cuGraphNodeGetParams(node, &driver);
  if (result != cudaSuccess) return result;
  struct node_params found = driver;
  if (driver.type == KERNEL) {
    memset(found.bytes, 0, sizeof found.bytes);
    tsr_kernel_node_to(&driver.driver_kernel, &found.kernel);
    found.kernel_context = driver.driver_kernel.context;
  } else if (driver.type == MEMCPY) {
    memset(found.bytes, 0, sizeof found.bytes);
    found.memcpy.flags = driver.driver_memcpy.flags;
    found.memcpy.context = driver.driver_memcpy.context;
    tsr_box_to(&driver.driver_memcpy.copy, &found.memcpy.copy);
  }
  memcpy(nodeParams, &found, sizeof found);
  return cudaSuccess;
}
#endif

cudaError_t tsr_cudaGraphNodeSetParams(cudaGraphNode_t node, void *nodeParams) {
  struct node_params driver;
  const cudaError_t result = translate(nodeParams, &driver);
  return result == cudaSuccess ? cuGraphNodeSetParams(node, &driver) : result;
}

cudaError_t tsr_cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                           void *nodeParams) {
  struct node_params driver;
  const cudaError_t result = translate(nodeParams, &driver);
  return result == cudaSuccess ? cuGraphExecNodeSetParams(graphExec, node, &driver) : result;
}

cudaError_t tsr_cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *pHandle_out,
                                                 cudaGraph_t graph, unsigned int defaultLaunchValue,
                                                 unsigned int flags) {
  return cuGraphConditionalHandleCreate(pHandle_out, graph, tsr_node_context(), defaultLaunchValue,
                                        flags);
}

#if TSR_CUDART >= 13
cudaError_t tsr_cudaGraphConditionalHandleCreate_v2(cudaGraphConditionalHandle *pHandle_out,
                                                    cudaGraph_t graph, cudaExecutionContext_t ctx,
                                                    unsigned int defaultLaunchValue,
                                                    unsigned int flags) {
  return cuGraphConditionalHandleCreate(pHandle_out, graph, ctx ? ctx : tsr_node_context(),
                                        defaultLaunchValue, flags);
}
#endif
