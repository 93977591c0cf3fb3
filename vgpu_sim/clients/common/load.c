/* Code that runs when the library is loaded, before the program can call the library. */
#include "config.h"
#include "trace.h"

__attribute__((constructor)) static void loaded(void) {
  tsr_config_read();
  tsr_trace_open(tsr_config()->trace_path);
}
