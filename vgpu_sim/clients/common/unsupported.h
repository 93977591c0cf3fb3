/* What is asked of a library that it does not do. */
#ifndef TSR_UNSUPPORTED_H
#define TSR_UNSUPPORTED_H

#include <stdint.h>

/* Ends the program where TESSERA_STRICT is set; its last words are both texts. */
void tsr_end_if_strict(const char *what, const char *happened);

/* Says once that `what` is not supported and is answered with `status`; ends the program where
 * TESSERA_STRICT is set. `said` is the caller's, zero at first. */
void tsr_unsupported(const char *what, const char *status, uint32_t *said);

/* Define an exported symbol that is not supported, in a generated entry.c, which includes clock.h and
 * trace.h. It reads no argument, whatever it is called with. `answer` is the statement that ends it.
 * TSR_UNSUPPORTED reports the call as tsr_unsupported does, TSR_UNSUPPORTED_QUIET only where the
 * program ends for it. */
#define TSR_UNSUPPORTED(type, symbol, status, answer) \
  TSR_STUB(type, symbol, #symbol, status, tsr_unsupported(#symbol, #status, &said), answer)
#define TSR_UNSUPPORTED_QUIET(type, symbol, status, answer) \
  TSR_STUB(type, symbol, #symbol, status, ((void)said, tsr_end_if_strict(#symbol, "was called")), answer)

/* As TSR_UNSUPPORTED, for a symbol of several version nodes, which `nodes(symbol)` names: see
 * symbol_nodes.h. */
#define TSR_UNSUPPORTED_IN(nodes, type, symbol, status, answer)                             \
  type symbol(void) TSR_OF_NODES(symbol);                                                   \
  TSR_STUB(type, symbol, #symbol, status, tsr_unsupported(#symbol, #status, &said), answer) \
  nodes(symbol)

/* The trace comes first, as `report` may end the program. */
#define TSR_STUB(type, symbol, name, status, report, answer)                                            \
  __attribute__((visibility("default"))) type symbol(void);                                             \
  type symbol(void) {                                                                                   \
    if (__builtin_expect(tsr_trace_fd >= 0, 0)) tsr_trace(name, "", NULL, (int)(status), tsr_now_ns()); \
    static uint32_t said;                                                                               \
    report;                                                                                             \
    answer;                                                                                             \
  }

#endif
