/* Ranges of registered variables. */
#ifndef TSR_SYMBOL_H
#define TSR_SYMBOL_H

#include "runtime_types.h"

/* The address of `count` bytes at `offset` in a variable. */
cudaError_t tsr_symbol_range(const void *symbol, size_t count, size_t offset, void **address);

#endif
