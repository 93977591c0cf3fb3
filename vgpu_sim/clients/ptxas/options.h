/* The command line. */
#pragma once

#include <stdbool.h>

enum option_id {
  OPTION_IGNORED, /* accepted and checked; it has no effect on PTX */
  OPTION_ARCH,
  OPTION_OUTPUT,
  OPTION_VERBOSE,
  OPTION_VERSION,
  OPTION_HELP,
  OPTION_LIST_ARCH,
  OPTION_NO_WARNINGS,
  OPTION_STRICT,
  OPTION_INPUT_STRING,
  OPTION_FILE,
  OPTION_DEBUG,
  OPTION_OPTIMISE,
  OPTION_MACHINE,
  OPTION_REGISTERS,
  OPTION_EMIT,
};

enum option_kind { VALUE_NONE, VALUE_TEXT, VALUE_BOOL, VALUE_NUMBER };

struct option_row {
  const char *name, *short_name; /* without dashes; NULL: none */
  enum option_kind kind;
  enum option_id id;
};

/* Ends with a row without a name. */
extern const struct option_row option_rows[];

struct options {
  const char *input;        /* a path; "-": standard input; NULL with input_text */
  const char *input_text;   /* the PTX itself */
  const char *architecture; /* as "sm_90a" */
  const char *output;
  bool verbose, emit_container;
  bool parse_only; /* the architecture is virtual: nothing is written */
  bool print_version, print_help, list_architectures;
};

/* Parse argv; a mistake ends the program. */
void options_read(struct options *options, int argc, char **argv);

/* Whether an architecture such as "90a" exists. */
bool options_know_architecture(const char *number);

void options_print_help(void);
void options_list_architectures(void);
