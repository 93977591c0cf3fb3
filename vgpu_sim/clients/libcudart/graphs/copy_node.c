/* Graph nodes that copy or fill memory. */
#include "api.h"
#include "graphs/graph_nodes.h"
#include "memory/shapes.h"
#include "memory/symbol.h"

/* A copy of bytes as a box of one row. */
static cudaError_t row_of(void *dst, const void *src, size_t count, int kind,
                          struct CUDA_MEMCPY3D *out) {
  const struct cudaMemcpy3DParms copy = {
      .srcPtr = {(void *)(uintptr_t)src, count, count, 1},
      .dstPtr = {dst, count, count, 1},
      .extent = {count, 1, 1},
      .kind = kind,
  };
  return tsr_box_of(&copy, out);
}

static cudaError_t to_symbol_of(const void *symbol, const void *src, size_t count, size_t offset,
                                int kind, struct CUDA_MEMCPY3D *out) {
  void *address;
  const cudaError_t result = tsr_symbol_range(symbol, count, offset, &address);
  return result == cudaSuccess ? row_of(address, src, count, kind, out) : result;
}

static cudaError_t from_symbol_of(void *dst, const void *symbol, size_t count, size_t offset,
                                  int kind, struct CUDA_MEMCPY3D *out) {
  void *address;
  const cudaError_t result = tsr_symbol_range(symbol, count, offset, &address);
  return result == cudaSuccess ? row_of(dst, address, count, kind, out) : result;
}

static cudaError_t add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                       size_t count, cudaError_t translated, const struct CUDA_MEMCPY3D *copy) {
  if (translated != cudaSuccess) return translated;
  return cuGraphAddMemcpyNode(node, graph, dependencies, count, copy, tsr_node_context());
}

cudaError_t tsr_cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                       const struct cudaMemcpy3DParms *pCopyParams) {
  struct CUDA_MEMCPY3D copy;
  return add(pGraphNode, graph, pDependencies, numDependencies, tsr_box_of(pCopyParams, &copy), &copy);
}

cudaError_t tsr_cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                         const cudaGraphNode_t *pDependencies,
                                         size_t numDependencies, void *dst, const void *src,
                                         size_t count, int kind) {
  struct CUDA_MEMCPY3D copy;
  return add(pGraphNode, graph, pDependencies, numDependencies, row_of(dst, src, count, kind, &copy),
             &copy);
}

cudaError_t tsr_cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                               const cudaGraphNode_t *pDependencies,
                                               size_t numDependencies, const void *symbol,
                                               const void *src, size_t count, size_t offset,
                                               int kind) {
  struct CUDA_MEMCPY3D copy;
  return add(pGraphNode, graph, pDependencies, numDependencies,
             to_symbol_of(symbol, src, count, offset, kind, &copy), &copy);
}

cudaError_t tsr_cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                 const cudaGraphNode_t *pDependencies,
                                                 size_t numDependencies, void *dst,
                                                 const void *symbol, size_t count, size_t offset,
                                                 int kind) {
  struct CUDA_MEMCPY3D copy;
  return add(pGraphNode, graph, pDependencies, numDependencies,
             from_symbol_of(dst, symbol, count, offset, kind, &copy), &copy);
}

cudaError_t tsr_cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                             struct cudaMemcpy3DParms *pNodeParams) {
  struct CUDA_MEMCPY3D copy = {0};
  if (!pNodeParams) return cudaErrorInvalidValue;
  const int result = cuGraphMemcpyNodeGetParams(node, &copy);
  if (result == cudaSuccess) tsr_box_to(&copy, pNodeParams);
  return result;
}

static cudaError_t set(cudaGraphNode_t node, cudaError_t translated, const struct CUDA_MEMCPY3D *copy) {
  return translated == cudaSuccess ? cuGraphMemcpyNodeSetParams(node, copy) : translated;
}

cudaError_t tsr_cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *pNodeParams) {
  struct CUDA_MEMCPY3D copy;
  return set(node, tsr_box_of(pNodeParams, &copy), &copy);
}

cudaError_t tsr_cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                               size_t count, int kind) {
  struct CUDA_MEMCPY3D copy;
  return set(node, row_of(dst, src, count, kind, &copy), &copy);
}

cudaError_t tsr_cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                     const void *src, size_t count, size_t offset,
                                                     int kind) {
  struct CUDA_MEMCPY3D copy;
  return set(node, to_symbol_of(symbol, src, count, offset, kind, &copy), &copy);
}

cudaError_t tsr_cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
                                                       const void *symbol, size_t count,
                                                       size_t offset, int kind) {
  struct CUDA_MEMCPY3D copy;
  return set(node, from_symbol_of(dst, symbol, count, offset, kind, &copy), &copy);
}

static cudaError_t set_in(cudaGraphExec_t graph, cudaGraphNode_t node, cudaError_t translated,
                          const struct CUDA_MEMCPY3D *copy) {
  if (translated != cudaSuccess) return translated;
  return cuGraphExecMemcpyNodeSetParams(graph, node, copy, tsr_node_context());
}

cudaError_t tsr_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 const struct cudaMemcpy3DParms *pNodeParams) {
  struct CUDA_MEMCPY3D copy;
  return set_in(hGraphExec, node, tsr_box_of(pNodeParams, &copy), &copy);
}

cudaError_t tsr_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                   void *dst, const void *src, size_t count,
                                                   int kind) {
  struct CUDA_MEMCPY3D copy;
  return set_in(hGraphExec, node, row_of(dst, src, count, kind, &copy), &copy);
}

cudaError_t tsr_cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec,
                                                         cudaGraphNode_t node, const void *symbol,
                                                         const void *src, size_t count,
                                                         size_t offset, int kind) {
  struct CUDA_MEMCPY3D copy;
  return set_in(hGraphExec, node, to_symbol_of(symbol, src, count, offset, kind, &copy), &copy);
}

cudaError_t tsr_cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                           cudaGraphNode_t node, void *dst,
                                                           const void *symbol, size_t count,
                                                           size_t offset, int kind) {
  struct CUDA_MEMCPY3D copy;
  return set_in(hGraphExec, node, from_symbol_of(dst, symbol, count, offset, kind, &copy), &copy);
}

cudaError_t tsr_cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                       const struct cudaMemsetParams *pMemsetParams) {
  return cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies, pMemsetParams,
                              tsr_node_context());
}

cudaError_t tsr_cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 const struct cudaMemsetParams *pNodeParams) {
  return cuGraphExecMemsetNodeSetParams(hGraphExec, node, pNodeParams, tsr_node_context());
}
