/* The properties that --query-gpu accepts. */
#pragma once

#include "readings/readings.h"

struct smi_field {
  const char *name, *alias; /* alias: NULL, or an older name */
  struct smi_reading reading;
  const char *help;
};

extern const struct smi_field smi_fields[];
extern const unsigned smi_field_count;
