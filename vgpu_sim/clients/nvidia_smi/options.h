/* The command line, except for the commands "mig" and "topo", which have their own parsers. */
#pragma once

#include <stdbool.h>

enum smi_action {
  SMI_SUMMARY,
  SMI_LIST,
  SMI_QUERY,
  SMI_QUERY_GPU,
  SMI_QUERY_APPS,
  SMI_HELP,
  SMI_HELP_GPU,
  SMI_HELP_APPS,
  SMI_VERSION_LINES,
  SMI_SET_PERSISTENCE,
  SMI_SET_MIG,
};

/* Sections of -q that -d selects; one bit each. */
enum smi_section {
  SMI_ALWAYS = 0,
  SMI_GENERAL = 1 << 0, /* printed only without -d */
  SMI_SECTION_MEMORY = 1 << 1,
  SMI_SECTION_UTILIZATION = 1 << 2,
  SMI_SECTION_ECC = 1 << 3,
  SMI_SECTION_TEMPERATURE = 1 << 4,
  SMI_SECTION_POWER = 1 << 5,
  SMI_SECTION_CLOCK = 1 << 6,
  SMI_SECTION_COMPUTE = 1 << 7,
  SMI_SECTION_PIDS = 1 << 8,
  SMI_SECTION_PERFORMANCE = 1 << 9,
  SMI_SECTION_ROW_REMAPPER = 1 << 10,
  SMI_SECTION_ENCODER = 1 << 11,
};

struct smi_options {
  enum smi_action action;
  const char *id, *fields, *file;
  bool xml, header, units;
  unsigned sections;   /* bits of enum smi_section; 0: all */
  long interval_ms;    /* 0: once */
  int value;           /* the new value */
};

/* Parse argv; returns an exit status, and has printed any error. */
int smi_options_read(struct smi_options *options, int argc, char **argv);
