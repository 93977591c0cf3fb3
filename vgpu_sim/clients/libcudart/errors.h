/* The status of calls. */
#ifndef TSR_ERRORS_H
#define TSR_ERRORS_H

#include "runtime_types.h"

/* Keep an error as the thread's last one, and return it. A status of the driver has the same number
 * as the runtime's; one that the runtime does not have becomes cudaErrorUnknown. */
cudaError_t tsr_record(cudaError_t status);

/* Forget the thread's last error, and in every thread those that only a new context ends. */
void tsr_forget_errors(void);

#endif
