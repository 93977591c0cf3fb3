/* Handling of calls that a library does not support. */
#ifndef TSR_UNSUPPORTED_H
#define TSR_UNSUPPORTED_H

#include <stdint.h>

/* End the program if TESSERA_STRICT is set; the last message joins both texts. */
void tsr_end_if_strict(const char *what, const char *happened);

/* Log once that `what` is not supported and fails with `status`; end the program if
 * TESSERA_STRICT is set. `said` belongs to the call site, initially zero. */
void tsr_unsupported(const char *what, const char *status, uint32_t *said);

/* Define an exported symbol that is not supported, in a generated entry.c, which includes
 * clock.h and trace.h. The function reads no argument and ends with the statement `answer`.
 * TSR_UNSUPPORTED reports the call as tsr_unsupported does; TSR_UNSUPPORTED_QUIET reports it
 * only if the program ends because of it. */
#define TSR_UNSUPPORTED(type, symbol, status, answer) \
  TSR_STUB(type, symbol, #symbol, status, tsr_unsupported(#symbol, #status, &said), answer)
#define TSR_UNSUPPORTED_QUIET(type, symbol, status, answer) \
  TSR_STUB(type, symbol, #symbol, status, ((void)said, tsr_end_if_strict(#symbol, "was called")), answer)

/* The same as TSR_UNSUPPORTED for a symbol in several version nodes, which `nodes(symbol)`
 * names: see symbol_nodes.h. */
#define TSR_UNSUPPORTED_IN(nodes, type, symbol, status, answer)                             \
  type symbol(void) TSR_OF_NODES(symbol);                                                   \
  TSR_STUB(type, symbol, #symbol, status, tsr_unsupported(#symbol, #status, &said), answer) \
  nodes(symbol)

/* The call is traced first, because `report` may end the program. */
#define TSR_STUB(type, symbol, name, status, report, answer)                                            \
  __attribute__((visibility("default"))) type symbol(void);                                             \
  type symbol(void) {                                                                                   \
    if (__builtin_expect(tsr_trace_fd >= 0, 0)) tsr_trace(name, "", NULL, (int)(status), tsr_now_ns()); \
    static uint32_t said;                                                                               \
    report;                                                                                             \
    answer;                                                                                             \
  }

#endif
