/* Functions of the driver API that run under the graphs' lock. */
#ifndef TSR_LOCKED_H
#define TSR_LOCKED_H

#include "nodes/graph.h"

/* Run the statements under the lock, with the variable `result`, and return `result`. */
#define TSR_LOCKED(...)             \
  CUresult result = CUDA_SUCCESS;   \
  tsr_graphs_lock();                \
  __VA_ARGS__;                      \
  tsr_graphs_unlock();              \
  return result

#endif
