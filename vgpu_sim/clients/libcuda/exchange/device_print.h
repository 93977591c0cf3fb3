/* printf of kernels: formats the records of compiler/system_calls.ptx. */
#ifndef TSR_DEVICE_PRINT_H
#define TSR_DEVICE_PRINT_H

#include <stdint.h>

enum { TSR_PRINT_OUTPUT = 1, TSR_PRINT_ASSERTION = 2, TSR_PRINT_PADDING = 3 };

/* Print a record, which may have any content: output to stdout, assertions to stderr. */
void tsr_device_print(uint32_t kind, const uint8_t *record, uint32_t bytes);

void tsr_device_print_flush(void);

#endif
