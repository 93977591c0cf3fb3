/* What is asked of a library that it does not do. */
#ifndef TSR_UNSUPPORTED_H
#define TSR_UNSUPPORTED_H

#include <stdint.h>

/* Ends the program where TESSERA_STRICT is set; its last words are both texts. */
void tsr_end_if_strict(const char *what, const char *happened);

/* Says once that `what` is not supported and is answered with `status`; ends the program where
 * TESSERA_STRICT is set. `said` is the caller's, zero at first. */
void tsr_unsupported(const char *what, const char *status, uint32_t *said);

#endif
