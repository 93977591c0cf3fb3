#include "graphs/run.h"

#include "copies/fill.h"
#include "copies/graph_copy.h"
#include "graphs/conditional.h"
#include "graphs/shapes.h"
#include "launching/launch.h"
#include "memory/graph_memory.h"
#include "streams/event.h"
#include "streams/host_function.h"
#include "streams/values.h"

CUresult tsr_operation_run(const struct tsr_operation *operation, struct tsr_context *context,
                           uint32_t stream) {
  switch (operation->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return tsr_launch_enqueue(context, stream, &operation->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      uint64_t to, from;
      struct tsr_copy_shape shape;
      const CUresult result = tsr_shape_of(&operation->copy, &shape, &to, &from);
      if (result != CUDA_SUCCESS) return result;
      return tsr_graph_copy_enqueue(context, stream, to, from, &shape);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return tsr_fill_enqueue(context, stream, &operation->set);
    case CU_GRAPH_NODE_TYPE_HOST:
      return tsr_host_function_enqueue(context, stream, operation->host.fn,
                                       operation->host.userData);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return tsr_event_wait_in(operation->event, context, stream);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return tsr_event_record_in(operation->event, context, stream);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return tsr_values_enqueue(context, stream, operation->values.list, operation->values.count);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      tsr_graph_memory_launched(operation->memory->address, true);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      tsr_graph_memory_launched(operation->freed, false);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return tsr_conditional_enqueue(operation->conditional, context, stream);
    default: /* empty */
      return CUDA_SUCCESS;
  }
}
