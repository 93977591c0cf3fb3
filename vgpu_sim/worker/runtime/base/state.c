/* The runtime's global state and each thread's activity. All other files depend on this one. */
#include "base/internal.h"

worker tw;
__thread thread_activity tw_current __attribute__((tls_model("initial-exec")));
