#define _GNU_SOURCE
#include "options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { MOST_OPTION_FILES = 16, MOST_FILE_BYTES = 1 << 20 };

static const char *const architectures[] = {
    "50",   "52",   "53",  "60",   "61",   "62",  "70",   "72",   "75",  "80",   "86",
    "87",   "88",   "89",  "90",   "90a",  "100", "100a", "100f", "101", "101a", "101f",
    "103",  "103a", "103f", "110", "110a", "110f", "120", "120a", "120f", "121", "121a",
    "121f", NULL,
};

struct reading {
  struct options *options;
  bool debug, optimised, no_warnings, strict;
  int option_files;
};

bool options_know_architecture(const char *number) {
  for (const char *const *one = architectures; *one; one++)
    if (strcmp(*one, number) == 0) return true;
  return false;
}

void options_list_architectures(void) {
  for (const char *const *one = architectures; *one; one++) printf("sm_%s\n", *one);
}

void options_print_help(void) {
  static const char *const values[] = {"", " <value>", " <true|false>", " <N>"};
  puts("\nUsage  : ptxas [options] <ptx file>\n\n"
       "Checks PTX and writes it, followed by a NUL byte, to the output file: Tessera's driver\n"
       "compiles PTX when a program loads it. Options that only concern machine code have no\n"
       "effect. --emit container writes compiled code of Tessera's instruction set instead.\n\n"
       "Options\n=======\n");
  for (const struct option_row *row = option_rows; row->name; row++) {
    if (row->short_name) printf("--%s%s (-%s)\n", row->name, values[row->kind], row->short_name);
  }
}

/* Find the row of an argument; `*value` is what follows "=", or what is joined to -O and -m. */
static const struct option_row *find(const char *argument, const char **value) {
  const bool is_long = argument[1] == '-';
  const char *name = argument + 1 + is_long;
  const size_t length = strcspn(name, "=");
  *value = name[length] ? name + length + 1 : NULL;
  for (const struct option_row *row = option_rows; row->name; row++) {
    const char *known = is_long ? row->name : row->short_name;
    if (known && strlen(known) == length && strncmp(known, name, length) == 0) return row;
  }
  for (const struct option_row *row = option_rows; !is_long && row->name; row++) {
    const bool joins = row->id == OPTION_OPTIMISE || row->id == OPTION_MACHINE;
    if (!joins || row->short_name[0] != name[0] || !isdigit((unsigned char)name[1])) continue;
    *value = name + 1;
    return row;
  }
  return NULL;
}

static void check_value(const struct option_row *row, const char *value) {
  if (row->kind == VALUE_BOOL && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
    report_fatal("'%s': expected true or false", value);
  const size_t digits = strspn(value, "0123456789");
  const bool is_number = digits > 0 && digits <= 9 && value[digits] == 0;
  if (row->kind == VALUE_NUMBER && !is_number) report_fatal("'%s': expected a number", value);
  const bool is_word = strcmp(value, "archmax") == 0 || strcmp(value, "archmin") == 0;
  if (row->id == OPTION_REGISTERS && !is_number && !is_word)
    report_fatal("Invalid value '%s' for option '%s'", value, row->name);
}

static void set_architecture(struct options *options, const char *value) {
  const bool is_virtual = strncmp(value, "compute_", 8) == 0;
  const char *number = is_virtual ? value + 8 : strncmp(value, "sm_", 3) == 0 ? value + 3 : "";
  if (!options_know_architecture(number))
    report_fatal("Value '%s' is not defined for option 'gpu-name'", value);
  if (options->architecture && strcmp(options->architecture, value) != 0)
    report_warning("incompatible redefinition for option 'gpu-name', the last value of this option "
                   "was used");
  options->architecture = value;
  options->parse_only = is_virtual;
}

static void read_arguments(struct reading *reading, int count, char **arguments);

/* Read options from a file; they are separated by white space. */
static void read_file(struct reading *reading, const char *path) {
  FILE *file = ++reading->option_files <= MOST_OPTION_FILES ? fopen(path, "re") : NULL;
  char *text = file ? calloc(1, MOST_FILE_BYTES + 1) : NULL;
  if (!text) report_fatal("Could not open options file '%s'", path);
  const size_t bytes = fread(text, 1, MOST_FILE_BYTES, file);
  fclose(file);
  /* The words stay in memory, because options point to them. */
  char **words = calloc(bytes / 2 + 2, sizeof *words);
  if (!words) report_fatal("Could not open options file '%s'", path);
  int count = 0;
  char *rest = text;
  for (char *word; (word = strtok_r(rest, " \t\r\n", &rest));) words[count++] = word;
  read_arguments(reading, count, words);
}

static void apply(struct reading *reading, const struct option_row *row, const char *value) {
  struct options *options = reading->options;
  switch (row->id) {
    case OPTION_ARCH:
      set_architecture(options, value);
      break;
    case OPTION_OUTPUT:
      options->output = value;
      break;
    case OPTION_VERBOSE:
      options->verbose = true;
      break;
    case OPTION_VERSION:
      options->print_version = true;
      break;
    case OPTION_HELP:
      options->print_help = true;
      break;
    case OPTION_LIST_ARCH:
      options->list_architectures = true;
      break;
    case OPTION_NO_WARNINGS:
      reading->no_warnings = true;
      break;
    case OPTION_STRICT:
      reading->strict = true;
      break;
    case OPTION_INPUT_STRING:
      options->input_text = value;
      break;
    case OPTION_FILE:
      read_file(reading, value);
      break;
    case OPTION_DEBUG:
      reading->debug = true;
      break;
    case OPTION_OPTIMISE:
      reading->optimised = strcmp(value, "0") != 0;
      break;
    case OPTION_MACHINE:
      if (strcmp(value, "64") != 0)
        report_fatal("Value '%s' is not defined for option 'machine'", value);
      break;
    case OPTION_EMIT:
      options->emit_container = strcmp(value, "container") == 0;
      if (!options->emit_container && strcmp(value, "ptx") != 0)
        report_fatal("Value '%s' is not defined for option 'emit'", value);
      break;
    case OPTION_REGISTERS:
    case OPTION_IGNORED:
      break;
  }
  report_options(reading->no_warnings, reading->strict);
}

static void read_arguments(struct reading *reading, int count, char **arguments) {
  for (int i = 0; i < count; i++) {
    const char *argument = arguments[i];
    if (argument[0] != '-' || argument[1] == 0) {
      if (reading->options->input)
        report_fatal("several input files are not supported by Tessera: link their PTX with "
                     "cuLinkAddData");
      reading->options->input = argument;
      continue;
    }
    const char *value;
    const struct option_row *row = find(argument, &value);
    if (!row) report_fatal("Unknown option '%.*s'", (int)strcspn(argument + 1, "="), argument + 1);
    if (row->kind == VALUE_NONE && value) {
      report_fatal("no argument expected after '%.*s'", (int)strcspn(argument, "="), argument);
    } else if (row->kind != VALUE_NONE && !value) {
      if (row->id == OPTION_OPTIMISE && argument[1] == 'O') continue; /* "-O" alone is allowed */
      if (i + 1 == count) report_fatal("argument expected after '%s'", argument);
      value = arguments[++i];
    }
    if (value) check_value(row, value);
    apply(reading, row, value);
  }
}

void options_read(struct options *options, int argc, char **argv) {
  *options = (struct options){.output = "elf.o"};
  struct reading reading = {.options = options};
  options->print_help = argc < 2;
  read_arguments(&reading, argc - 1, argv + 1);
  if (reading.debug && reading.optimised) report_fatal("Optimized debugging not supported");
  if (!options->architecture) options->architecture = "sm_52";
}
