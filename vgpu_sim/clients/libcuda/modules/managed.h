/* Managed variables of modules: in managed memory, at one address for the host and for kernels
 * (vgpu_sim/compiler/lower/symbols/managed_variables.py). */
#ifndef TSR_MANAGED_H
#define TSR_MANAGED_H

#include "base/objects.h"

/* Give each managed variable of a loaded module memory with its initial value, and store the
 * address in the module. On failure the caller releases the memory. */
CUresult tsr_managed_place(struct tsr_module *module);

/* Look up a managed variable; NOT_FOUND for other variables. */
CUresult tsr_managed_variable(const struct tsr_module *module, const char *name,
                              CUdeviceptr *address, size_t *bytes);

/* Release the memory of managed variables, after the module's kernels have ended. */
void tsr_managed_release(const uint64_t *addresses, uint32_t count);

#endif
