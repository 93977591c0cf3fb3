/* cuGraphDebugDotPrint: a graph in the language of Graphviz. */
#include <stdio.h>

#include "api.h"
#include "graphs/locked.h"

static const char *const NAMES[] = {"KERNEL",      "MEMCPY",       "MEMSET",    "HOST",
                                    "GRAPH",       "EMPTY",        "EVENT_WAIT", "EVENT_RECORD",
                                    "EXT_SIGNAL",  "EXT_WAIT",     "MEM_ALLOC", "MEM_FREE",
                                    "BATCH_MEMOP", "CONDITIONAL"};

static void print_label(FILE *file, const struct tsr_node *node) {
  const struct tsr_operation *operation = &node->operation;
  fprintf(file, "%u: %s", node->id, NAMES[operation->type]);
  if (operation->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    const struct tsr_kernel_operation *kernel = &operation->kernel;
    const struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, kernel->function);
    const struct tsr_kernel *library = TSR_FIND(tsr_kernel, TSR_KERNEL, kernel->function);
    fprintf(file, "\\n%.200s\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>",
            function ? function->name : library ? library->name : "?", kernel->grid[0],
            kernel->grid[1], kernel->grid[2], kernel->block[0], kernel->block[1],
            kernel->block[2], kernel->shared_bytes);
  } else if (operation->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    fprintf(file, "\\n%zu x %zu x %zu bytes", operation->copy.WidthInBytes,
            operation->copy.Height, operation->copy.Depth);
  } else if (operation->type == CU_GRAPH_NODE_TYPE_MEMSET) {
    fprintf(file, "\\n%zu x %zu, value %u", operation->set.width, operation->set.height,
            operation->set.value);
  } else if (operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    static const char *const KINDS[] = {"IF", "WHILE", "SWITCH"};
    const struct tsr_conditional *conditional = operation->conditional;
    fprintf(file, "\\n%s, %u bodies\\nhandle 0x%llx", KINDS[conditional->kind], conditional->count,
            (unsigned long long)conditional->condition->address);
  }
}

static void print_graph(FILE *file, const struct tsr_graph *graph) {
  fprintf(file, "subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n", graph->id,
          graph->id);
  for (uint32_t i = 0; i < graph->count; i++) {
    const struct tsr_node *node = graph->nodes[i];
    fprintf(file, "\"graph_%u_node_%u\"[shape=\"rectangle\" label=\"", graph->id, node->id);
    print_label(file, node);
    fprintf(file, "\"];\n");
    const struct tsr_graph *inner;
    for (uint32_t j = 0; (inner = tsr_inner_graph(&node->operation, j)); j++)
      print_graph(file, inner);
  }
  for (uint32_t i = 0; i < graph->count; i++)
    for (uint32_t j = 0; j < graph->nodes[i]->after.count; j++)
      fprintf(file, "\"graph_%u_node_%u\" -> \"graph_%u_node_%u\";\n", graph->id,
              graph->nodes[i]->id, graph->id, graph->nodes[i]->after.list[j].node->id);
  fprintf(file, "}\n");
}

/* All details are always printed: `flags` only requests more of them. */
CUresult tsr_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags) {
  (void)flags;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_graph *graph = TSR_GRAPH_OF(hGraph);
    FILE *file = graph ? fopen(path, "w") : NULL;
    result = !graph ? CUDA_ERROR_INVALID_VALUE : file ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    if (file) {
      fprintf(file, "digraph dot {\n");
      print_graph(file, graph);
      fprintf(file, "}\n");
      if (fclose(file) != 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    }
  });
}
