/* The runtime's state, and what each thread does: below all files that use them. */
#include "base/internal.h"

worker tw;
__thread thread_activity tw_current __attribute__((tls_model("initial-exec")));
