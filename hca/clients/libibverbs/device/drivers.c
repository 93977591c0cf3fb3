/* Symbols that hardware drivers linked into a program require of libibverbs at start. */
#include <stdbool.h>

#include "api.h"
#include "symbol_nodes.h"

/* Read by the drivers: whether objects of a removed device can be destroyed. */
extern bool verbs_allow_disassociate_destroy TSR_OF_NODES(verbs_allow_disassociate_destroy);
__attribute__((visibility("default"))) bool verbs_allow_disassociate_destroy = true;
TSR_FIRST_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_34)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_57)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_59)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_64)
TSR_ALSO_IN(verbs_allow_disassociate_destroy, IBVERBS_PRIVATE_65)

/* Drivers of hardware register themselves here; there is no hardware for them. */
void tsr_verbs_register_driver_34(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_57(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_59(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_64(const void *driver) { (void)driver; }
void tsr_verbs_register_driver_65(const void *driver) { (void)driver; }
