/* The forms of output, one function each; the function prints, and returns an exit status. */
#pragma once

#include "nvml/gpus.h"
#include "options.h"

int smi_summary(const struct smi_gpus *gpus);
int smi_list(const struct smi_gpus *gpus);
int smi_query(const struct smi_gpus *gpus, bool xml, unsigned sections);
int smi_query_gpu(const struct smi_gpus *gpus, const struct smi_options *options, bool first);
int smi_query_apps(const struct smi_gpus *gpus, const struct smi_options *options, bool first);
int smi_set(const struct smi_gpus *gpus, const struct smi_options *options);
int smi_topology(int argc, char **argv);
int smi_mig(int argc, char **argv);

/* Without NVML. */
void smi_help(void);
void smi_help_query_gpu(void);
void smi_help_query_apps(void);
