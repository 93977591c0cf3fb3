#include "modules/managed.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/ring_copy.h"
#include "memory/advice.h"
#include "memory/memory.h"

static const char PREFIX[] = "tessera.managed."; /* of variables with addresses of managed ones */

static const char *name_of(const struct tsr_module *module, const tessera_variable_record *variable) {
  return (const char *)module->table.data + variable->name_offset;
}

static bool is_pointer(const struct tsr_module *module, const tessera_variable_record *variable) {
  return strncmp(name_of(module, variable), PREFIX, sizeof PREFIX - 1) == 0;
}

/* Find a variable's record. The table is this module's own copy, so that addresses can be set. */
static tessera_variable_record *find(const struct tsr_module *module, const char *name) {
  tessera_variable_record *const variables = (tessera_variable_record *)(uintptr_t)module->table.variables;
  for (uint32_t i = 0; i < module->table.header->variable_count; i++)
    if (strcmp(name_of(module, &variables[i]), name) == 0) return &variables[i];
  return NULL;
}

/* Allocate memory with the initial value of a variable. The pointer has its address in the
 * segment. */
static CUresult allocate(struct tsr_context *context, const tessera_variable_record *variable,
                         uint64_t *address) {
  const struct tsr_sort sort = {.use = TSR_USE_MANAGED, .module = true};
  const CUresult result = tsr_memory_allocate(context, sort, variable->bytes, address);
  if (result != CUDA_SUCCESS) return result;
  tsr_advice_forget(*address, variable->bytes);
  return tsr_segment_copy(context, *address, variable->address, variable->bytes);
}

/* Set `pointer` to an address, which the worker reads from a cell of pinned memory. */
static CUresult store(struct tsr_context *context, const tessera_variable_record *pointer,
                      uint64_t cell, uint64_t address) {
  struct tsr_span span;
  if (!tsr_memory_find(cell, &span)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  memcpy(span.alias, &address, sizeof address);
  return tsr_segment_copy(context, pointer->address, cell, sizeof address);
}

static CUresult place(struct tsr_module *module, const tessera_variable_record *pointer,
                      uint64_t cell) {
  tessera_variable_record *const variable =
      find(module, name_of(module, pointer) + sizeof PREFIX - 1);
  if (!variable) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  uint64_t address = 0;
  const CUresult result = allocate(module->context, variable, &address);
  if (address) module->managed[module->managed_count++] = address;
  if (result != CUDA_SUCCESS) return result;
  variable->address = address;
  return store(module->context, pointer, cell, address);
}

static uint32_t count_pointers(const struct tsr_module *module) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < module->table.header->variable_count; i++)
    count += is_pointer(module, &module->table.variables[i]);
  return count;
}

CUresult tsr_managed_place(struct tsr_module *module) {
  const uint32_t count = count_pointers(module);
  if (count == 0) return CUDA_SUCCESS;
  module->managed = calloc(count, sizeof *module->managed);
  if (!module->managed) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t cell;
  const struct tsr_sort pinned = {.use = TSR_USE_PINNED};
  CUresult result = tsr_memory_allocate(module->context, pinned, sizeof cell, &cell);
  if (result != CUDA_SUCCESS) return result;
  for (uint32_t i = 0; i < module->table.header->variable_count && result == CUDA_SUCCESS; i++)
    if (is_pointer(module, &module->table.variables[i]))
      result = place(module, &module->table.variables[i], cell);
  tsr_memory_release(cell, TSR_USE_PINNED);
  return result;
}

CUresult tsr_managed_variable(const struct tsr_module *module, const char *name,
                              CUdeviceptr *address, size_t *bytes) {
  const tessera_variable_record *variable = find(module, name);
  for (uint32_t i = 0; variable && i < module->managed_count; i++) {
    if (module->managed[i] != variable->address) continue;
    if (address) *address = variable->address;
    if (bytes) *bytes = variable->bytes;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

void tsr_managed_release(const uint64_t *addresses, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) tsr_memory_release(addresses[i], TSR_USE_MANAGED);
}
