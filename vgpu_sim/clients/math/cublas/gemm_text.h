/* The PTX of a matrix product. */
#ifndef TSR_CUBLAS_GEMM_TEXT_H
#define TSR_CUBLAS_GEMM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { TSR_GEMM_TEXT_BYTES = 8192 };

/* Write the text of the kernel `gemm` for factors, result and scales of these types, with its
 * NUL; false if it does not fit. */
bool tsr_gemm_write(char *text, size_t bytes, int factors, int result, int scale);

#endif
