/* The PTX of a matrix product. */
#ifndef TSR_PRODUCT_TEXT_H
#define TSR_PRODUCT_TEXT_H

#include "product.h"

enum { TSR_PRODUCT_TEXT_BYTES = 12288 };

/* Write the text of the kernel `product`, with its NUL; false if it does not fit. The kernel's
 * parameter is a tsr_product. */
bool tsr_product_write(char *text, size_t bytes, struct tsr_product_types types);

#endif
