/* --query-gpu and --query-compute-apps. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "exits.h"
#include "readings/fields.h"
#include "nvml/nvml.h"
#include "outputs.h"

enum { MAX_COLUMNS = 128 };

static const struct smi_field *find_field(const char *name) {
  for (unsigned i = 0; i < smi_field_count; i++)
    if (strcmp(name, smi_fields[i].name) == 0 ||
        (smi_fields[i].alias && strcmp(name, smi_fields[i].alias) == 0))
      return &smi_fields[i];
  return NULL;
}

/* Process columns, besides those of the GPU. */
enum { APP_PID = 1, APP_NAME, APP_MEMORY };
static const struct smi_field app_fields[] = {
    {"timestamp", 0, {smi_read_timestamp, 0, 0},
     "When the query was made: YYYY/MM/DD HH:MM:SS.msec."},
    {"gpu_name", 0, {smi_read_name, 0, 0}, "Product name of the board that is simulated."},
    {"gpu_bus_id", 0, {smi_read_pci, SMI_PCI_BUS_ID, 0}, "PCI bus id: domain:bus:device.function."},
    {"gpu_serial", 0, {smi_read_serial, 0, 0}, "Serial number; a simulated board has none."},
    {"gpu_uuid", 0, {smi_read_uuid, 0, 0}, "Globally unique identifier of the GPU."},
    {"pid", 0, {0, APP_PID, 0}, "Process id."},
    {"process_name", "name", {0, APP_NAME, 0}, "Name of the process."},
    {"used_gpu_memory", "used_memory", {0, APP_MEMORY, "MiB"}, "Device memory that it uses."},
};
enum { APP_FIELDS = sizeof app_fields / sizeof *app_fields };

static const struct smi_field *find_app_field(const char *name) {
  for (int i = 0; i < APP_FIELDS; i++)
    if (strcmp(name, app_fields[i].name) == 0 ||
        (app_fields[i].alias && strcmp(name, app_fields[i].alias) == 0))
      return &app_fields[i];
  return NULL;
}

/* Fill ``columns``; returns their number, or -1 after an error message that names the invalid
   one. */
static int columns_of(const char *names, const struct smi_field *(*find)(const char *),
                      const struct smi_field *columns[MAX_COLUMNS]) {
  char words[4096];
  int count = 0;
  if (snprintf(words, sizeof words, "%s", names) >= (int)sizeof words) return -1;
  for (char *rest = words, *word; (word = strsep(&rest, ",")) != NULL;) {
    word += strspn(word, " ");
    word[strcspn(word, " ")] = 0;
    const struct smi_field *field = count < MAX_COLUMNS ? find(word) : NULL;
    if (!field) {
      smi_clean(word);
      printf("Field \"%s\" is not a valid field to query.\n\n", word);
      return -1;
    }
    columns[count++] = field;
  }
  return count;
}

static void header(const struct smi_field *const *columns, int count) {
  for (int i = 0; i < count; i++) {
    printf("%s%s", i ? ", " : "", columns[i]->name);
    if (columns[i]->reading.unit) printf(" [%s]", columns[i]->reading.unit);
  }
  putchar('\n');
}

static void value(const struct smi_text *text, const char *unit, bool last) {
  if (text->status)
    printf("[%s]", smi_text_shown(text));
  else
    printf("%s%s%s", text->value, unit ? " " : "", unit ? unit : "");
  fputs(last ? "\n" : ", ", stdout);
}

int smi_query_gpu(const struct smi_gpus *gpus, const struct smi_options *options, bool first) {
  const struct smi_field *columns[MAX_COLUMNS];
  const int count = columns_of(options->fields, find_field, columns);
  if (count < 0) return SMI_EXIT_INVALID;
  if (first && options->header) header(columns, count);
  for (unsigned i = 0; i < gpus->count; i++)
    for (int k = 0; k < count; k++) {
      struct smi_text text;
      smi_read(&gpus->list[i], &columns[k]->reading, &text);
      value(&text, options->units ? columns[k]->reading.unit : NULL, k + 1 == count);
    }
  return SMI_EXIT_SUCCESS;
}

static void read_app(const struct smi_gpu *gpu, const struct smi_process *process,
                     const struct smi_field *column, struct smi_text *text) {
  char name[SMI_TEXT_BYTES];
  if (column->reading.read) {
    smi_read(gpu, &column->reading, text);
    return;
  }
  text->status = NVML_SUCCESS;
  switch (column->reading.argument) {
    case APP_PID:
      smi_text_format(text, "%u", process->pid);
      break;
    case APP_NAME:
      smi_process_name(process->pid, name, sizeof name);
      for (char *comma = name; (comma = strchr(comma, ',')) != NULL;) *comma = '?'; /* columns */
      smi_text_format(text, "%s", name);
      break;
    default:
      if (process->used_bytes == ~0ULL) text->status = NVML_ERROR_NOT_SUPPORTED;
      smi_text_format(text, "%llu", process->used_bytes >> 20);
  }
}

int smi_query_apps(const struct smi_gpus *gpus, const struct smi_options *options, bool first) {
  static struct smi_process list[SMI_MAX_PROCESSES];
  const struct smi_field *columns[MAX_COLUMNS];
  const int count = columns_of(options->fields, find_app_field, columns);
  if (count < 0) return SMI_EXIT_INVALID;
  if (first && options->header) header(columns, count);
  for (unsigned i = 0; i < gpus->count; i++) {
    const unsigned processes = smi_processes(&gpus->list[i], list);
    for (unsigned p = 0; p < processes; p++) {
      if (list[p].type == 'G') continue;
      for (int k = 0; k < count; k++) {
        struct smi_text text;
        read_app(&gpus->list[i], &list[p], columns[k], &text);
        value(&text, options->units ? columns[k]->reading.unit : NULL, k + 1 == count);
      }
    }
  }
  return SMI_EXIT_SUCCESS;
}

static void explain(const struct smi_field *fields, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    if (fields[i].alias)
      printf("\"%s\" or \"%s\"\n", fields[i].name, fields[i].alias);
    else
      printf("\"%s\"\n", fields[i].name);
    printf("%s\n\n", fields[i].help);
  }
}

void smi_help_query_gpu(void) {
  puts("List of valid properties to query for the switch \"--query-gpu=\":\n");
  explain(smi_fields, smi_field_count);
}

void smi_help_query_apps(void) {
  puts("List of valid properties to query for the switch \"--query-compute-apps=\":\n");
  explain(app_fields, APP_FIELDS);
}
