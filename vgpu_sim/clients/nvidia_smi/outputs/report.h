/* The rows that -q prints for one GPU. */
#pragma once

#include "outputs/document.h"
#include "options.h"
#include "readings/readings.h"

struct smi_row {
  int depth;                  /* 0: a property of the GPU or a group */
  unsigned section;           /* of a row of depth 0 and of the rows below it */
  const char *label, *tag;
  bool group;
  struct smi_reading reading; /* of a value */
  /* for rows that no table describes */
  void (*write)(struct smi_document *, const struct smi_gpu *);
};

extern const struct smi_row smi_rows[];
extern const unsigned smi_row_count;

void smi_write_mig_devices(struct smi_document *document, const struct smi_gpu *gpu);
void smi_write_processes(struct smi_document *document, const struct smi_gpu *gpu);
