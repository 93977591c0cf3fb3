/* Names and texts of a library's statuses. */
#ifndef TSR_TEXTS_H
#define TSR_TEXTS_H

/* Return a status's name or text, or `unknown`. */
const char *tsr_status_name(int code, const char *unknown);
const char *tsr_status_text(int code, const char *unknown);

#endif
