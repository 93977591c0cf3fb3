/* A module table as the worker sends it (vgpu_sim/hal/messages.py), copied and checked. */
#ifndef TSR_TABLE_H
#define TSR_TABLE_H

#include <stdbool.h>

#include "tessera_abi.h"

struct tsr_table {
  uint8_t *data;
  size_t bytes;
  const tessera_table_header *header;
  const tessera_function_record *functions;
  const tessera_parameter_record *parameters;
  const tessera_variable_record *variables;
  const tessera_refused_record *refused;
  const uint32_t *titles; /* of functions, offsets; NULL: the worker is of an older version */
  const char *log; /* not terminated */
  size_t log_bytes;
};

/* Read and check a table; on failure, which returns false, nothing is allocated. */
bool tsr_table_read(struct tsr_table *table, int fd, uint64_t bytes);

/* The title of a function (vgpu_sim/kernel_names), for messages; its name if the table lacks it. */
const char *tsr_table_title(const struct tsr_table *table, uint32_t function);

/* Find a variable by its name, also one that the compiler has added; NULL: there is none. */
const tessera_variable_record *tsr_table_variable(const struct tsr_table *table, const char *name);

#endif
