#define _GNU_SOURCE
#include "modules/table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TABLE_BYTES = 256 << 20 };

static bool inside(const struct tsr_table *table, uint64_t offset, uint64_t count, uint64_t size) {
  return offset <= table->bytes && count <= (table->bytes - offset) / size && offset % 4 == 0;
}

static bool is_string(const struct tsr_table *table, uint32_t offset) {
  return offset < table->bytes &&
         memchr(table->data + offset, 0, table->bytes - offset) != NULL;
}

static bool check_functions(const struct tsr_table *table) {
  const tessera_table_header *header = table->header;
  for (uint32_t i = 0; i < header->function_count; i++) {
    const tessera_function_record *function = &table->functions[i];
    if (!is_string(table, function->name_offset) ||
        function->parameter_bytes > TESSERA_MAX_PARAMETER_BYTES ||
        function->parameter_first > header->parameter_count ||
        function->parameter_count > header->parameter_count - function->parameter_first)
      return false;
    for (uint32_t p = 0; p < function->parameter_count; p++) {
      const tessera_parameter_record *parameter =
          &table->parameters[function->parameter_first + p];
      if (parameter->offset > function->parameter_bytes ||
          parameter->size > function->parameter_bytes - parameter->offset)
        return false;
    }
  }
  return true;
}

/* Workers of older versions have a shorter header, and nothing between it and the functions. */
static bool check_titles(struct tsr_table *table) {
  const tessera_table_header *header = table->header;
  if (table->bytes < sizeof *header || header->function_offset < sizeof *header ||
      header->titles_offset == 0)
    return true;
  if (!inside(table, header->titles_offset, header->function_count, sizeof *table->titles))
    return false;
  table->titles = (const void *)(table->data + header->titles_offset);
  for (uint32_t i = 0; i < header->function_count; i++)
    if (!is_string(table, table->titles[i])) return false;
  return true;
}

static bool check(struct tsr_table *table) {
  if (table->bytes < offsetof(tessera_table_header, titles_offset)) return false;
  const tessera_table_header *header = table->header = (const void *)table->data;
  if (!inside(table, header->function_offset, header->function_count, sizeof *table->functions) ||
      !inside(table, header->parameter_offset, header->parameter_count,
              sizeof *table->parameters) ||
      !inside(table, header->variable_offset, header->variable_count, sizeof *table->variables) ||
      !inside(table, header->refused_offset, header->refused_count, sizeof *table->refused) ||
      header->log_offset > table->bytes || header->log_bytes > table->bytes - header->log_offset)
    return false;
  /* The records must be aligned, because they have 64-bit fields. */
  if ((header->function_count && header->function_offset % 8) ||
      (header->variable_count && header->variable_offset % 8))
    return false;
  table->functions = (const void *)(table->data + header->function_offset);
  table->parameters = (const void *)(table->data + header->parameter_offset);
  table->variables = (const void *)(table->data + header->variable_offset);
  table->refused = (const void *)(table->data + header->refused_offset);
  table->log = (const char *)table->data + header->log_offset;
  table->log_bytes = strnlen(table->log, header->log_bytes);
  for (uint32_t i = 0; i < header->variable_count; i++)
    if (!is_string(table, table->variables[i].name_offset)) return false;
  for (uint32_t i = 0; i < header->refused_count; i++)
    if (!is_string(table, table->refused[i].name_offset) ||
        !is_string(table, table->refused[i].log_offset) ||
        !is_string(table, table->refused[i].title_offset))
      return false;
  return check_functions(table) && check_titles(table);
}

const char *tsr_table_title(const struct tsr_table *table, uint32_t function) {
  const uint32_t offset = table->titles ? table->titles[function] : 0;
  return (const char *)table->data + (offset ? offset : table->functions[function].name_offset);
}

bool tsr_table_read(struct tsr_table *table, int fd, uint64_t bytes) {
  *table = (struct tsr_table){.bytes = bytes};
  if (fd < 0 || bytes > MAX_TABLE_BYTES) return false;
  table->data = malloc(bytes ? bytes : 1);
  if (!table->data) return false;
  size_t got = 0;
  while (got < bytes) {
    const ssize_t more = pread(fd, table->data + got, bytes - got, (off_t)got);
    if (more <= 0) break;
    got += (size_t)more;
  }
  if (got == bytes && check(table)) return true;
  free(table->data);
  table->data = NULL;
  return false;
}

const tessera_variable_record *tsr_table_variable(const struct tsr_table *table, const char *name) {
  for (uint32_t i = 0; i < table->header->variable_count; i++)
    if (strcmp((const char *)table->data + table->variables[i].name_offset, name) == 0)
      return &table->variables[i];
  return NULL;
}
