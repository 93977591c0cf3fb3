/* Launch configurations. */
#ifndef TSR_LAUNCH_H
#define TSR_LAUNCH_H

#include "driver.h"

/* Translate a configuration into the driver's. */
cudaError_t tsr_launch_config(const cudaLaunchConfig_t *config, struct CUlaunchConfig *out);

#endif
