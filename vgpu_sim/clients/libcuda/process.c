/* Process-wide state used by several folders. All other files depend on this one. */
#include "process.h"

_Atomic uint32_t tsr_process_state = TSR_LOADED;
pthread_mutex_t tsr_module_lock = PTHREAD_MUTEX_INITIALIZER;
__thread bool tsr_per_thread_default;
__thread bool tsr_in_host_function;
