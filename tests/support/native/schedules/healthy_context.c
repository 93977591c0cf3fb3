/* The client library's parts that the rings call, for a context that never fails. */
#include <stdlib.h>

#include "exchange/hang.h"
#include "exchange/health.h"
#include "exchange/kernel_output.h"

CUresult tsr_context_error(struct tsr_context *c) { return (CUresult)(0 * c->index); }
bool tsr_context_hung_up(struct tsr_context *c) { return c == NULL; }
bool tsr_object_lives(const void *object) { return object != NULL; }
void tsr_kernel_output_print(struct tsr_context *c) { (void)c; }

CUresult tsr_context_lose(struct tsr_context *c) {
  (void)c;
  abort();
}

void tsr_hang_look(struct tsr_context *c, uint32_t stream, struct tsr_hang *hang) {
  (void)c, (void)stream, (void)hang;
}
