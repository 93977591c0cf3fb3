/* What drivers of hardware, which are linked into programs, want of libibverbs when these begin. */
#include <stdbool.h>

#include "api.h"
#include "symbol_nodes.h"

/* A switch of the drivers' library: whether objects of a device that is gone can be destroyed. */
extern bool verbs_allow_disassociate_destroy TSR_OF_NODES(verbs_allow_disassociate_destroy);
__attribute__((visibility("default"))) bool verbs_allow_disassociate_destroy = true;
TSR_FIRST_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_34)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_57)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_59)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_64)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_65)

/* Drivers of hardware that are linked into programs announce themselves; there is nothing to drive. */
void tsr_verbs_register_driver_34(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_57(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_59(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_64(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_65(const void *driver) { (void)driver; }
