#define _GNU_SOURCE
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exits.h"

enum takes { NOTHING, VALUE, MAYBE };
enum key {
  KEY_ACTION,
  KEY_ID,
  KEY_FILE,
  KEY_XML,
  KEY_FORMAT,
  KEY_DISPLAY,
  KEY_LOOP,
  KEY_LOOP_MS,
  KEY_REFUSED
};

struct option {
  const char *letter, *name;
  enum takes takes;
  enum key key;
  enum smi_action action;
};

static const struct option known[] = {
    {"-h", "--help", NOTHING, KEY_ACTION, SMI_HELP},
    {NULL, "--version", NOTHING, KEY_ACTION, SMI_VERSION_LINES},
    {"-L", "--list-gpus", NOTHING, KEY_ACTION, SMI_LIST},
    {"-q", "--query", NOTHING, KEY_ACTION, SMI_QUERY},
    {NULL, "--query-gpu", VALUE, KEY_ACTION, SMI_QUERY_GPU},
    {NULL, "--query-compute-apps", VALUE, KEY_ACTION, SMI_QUERY_APPS},
    {NULL, "--help-query-gpu", NOTHING, KEY_ACTION, SMI_HELP_GPU},
    {NULL, "--help-query-compute-apps", NOTHING, KEY_ACTION, SMI_HELP_APPS},
    {"-pm", "--persistence-mode", VALUE, KEY_ACTION, SMI_SET_PERSISTENCE},
    {"-mig", "--multi-instance-gpu", VALUE, KEY_ACTION, SMI_SET_MIG},
    {"-i", "--id", VALUE, KEY_ID, 0},
    {"-f", "--filename", VALUE, KEY_FILE, 0},
    {"-x", "--xml-format", NOTHING, KEY_XML, 0},
    {NULL, "--format", VALUE, KEY_FORMAT, 0},
    {"-d", "--display", VALUE, KEY_DISPLAY, 0},
    {"-l", "--loop", MAYBE, KEY_LOOP, 0},
    {"-lms", "--loop-ms", VALUE, KEY_LOOP_MS, 0},
    /* Options for features that simulated GPUs lack. They are recognised so that a message can say
       so. */
    {"-u", "--unit", NOTHING, KEY_REFUSED, 0},
    {"-B", "--list-excluded-gpus", NOTHING, KEY_REFUSED, 0},
    {"-e", "--ecc-config", VALUE, KEY_REFUSED, 0},
    {"-p", "--reset-ecc-errors", VALUE, KEY_REFUSED, 0},
    {"-c", "--compute-mode", VALUE, KEY_REFUSED, 0},
    {"-r", "--gpu-reset", NOTHING, KEY_REFUSED, 0},
    {"-ac", "--applications-clocks", VALUE, KEY_REFUSED, 0},
    {"-rac", "--reset-applications-clocks", NOTHING, KEY_REFUSED, 0},
    {"-lgc", "--lock-gpu-clocks", VALUE, KEY_REFUSED, 0},
    {"-rgc", "--reset-gpu-clocks", NOTHING, KEY_REFUSED, 0},
    {"-lmc", "--lock-memory-clocks", VALUE, KEY_REFUSED, 0},
    {"-rmc", "--reset-memory-clocks", NOTHING, KEY_REFUSED, 0},
    {"-pl", "--power-limit", VALUE, KEY_REFUSED, 0},
    {"-am", "--accounting-mode", VALUE, KEY_REFUSED, 0},
    {NULL, "--query-accounted-apps", VALUE, KEY_REFUSED, 0},
    {NULL, "--query-supported-clocks", VALUE, KEY_REFUSED, 0},
    {NULL, "--query-retired-pages", VALUE, KEY_REFUSED, 0},
    {NULL, "--query-remapped-rows", VALUE, KEY_REFUSED, 0},
};

static const struct {
  const char *name;
  unsigned bit;
} sections[] = {
    {"MEMORY", SMI_SECTION_MEMORY},
    {"UTILIZATION", SMI_SECTION_UTILIZATION},
    {"ECC", SMI_SECTION_ECC},
    {"TEMPERATURE", SMI_SECTION_TEMPERATURE},
    {"POWER", SMI_SECTION_POWER},
    {"CLOCK", SMI_SECTION_CLOCK},
    {"COMPUTE", SMI_SECTION_COMPUTE},
    {"PIDS", SMI_SECTION_PIDS},
    {"PERFORMANCE", SMI_SECTION_PERFORMANCE},
    {"ROW_REMAPPER", SMI_SECTION_ROW_REMAPPER},
    {"ENCODER_STATS", SMI_SECTION_ENCODER},
};

static int invalid(void) {
  puts("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.");
  return SMI_EXIT_INVALID;
}

static const struct option *find(const char *word, size_t length) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const char *const names[] = {known[i].letter, known[i].name};
    for (int k = 0; k < 2; k++)
      if (names[k] && strlen(names[k]) == length && strncmp(names[k], word, length) == 0)
        return &known[i];
  }
  return NULL;
}

static bool read_format(struct smi_options *options, const char *value) {
  char words[128];
  bool csv = false;
  if (snprintf(words, sizeof words, "%s", value) >= (int)sizeof words) return false;
  for (char *rest = words, *word; (word = strsep(&rest, ", ")) != NULL;) {
    if (strcmp(word, "csv") == 0)
      csv = true;
    else if (strcmp(word, "noheader") == 0)
      options->header = false;
    else if (strcmp(word, "nounits") == 0)
      options->units = false;
    else if (*word)
      return false;
  }
  return csv;
}

static bool read_sections(struct smi_options *options, const char *value) {
  char words[256];
  if (snprintf(words, sizeof words, "%s", value) >= (int)sizeof words) return false;
  for (char *rest = words, *word; (word = strsep(&rest, ",")) != NULL;) {
    unsigned bit = 0;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
      if (strcasecmp(word, sections[i].name) == 0) bit = sections[i].bit;
    if (!bit) return false;
    options->sections |= bit;
  }
  return true;
}

/* Parse a number of at most ``limit``; -1: it is not one. */
static long number(const char *value, long limit) {
  char *end;
  const long result = strtol(value, &end, 10);
  return *value && *end == 0 && result >= 0 && result <= limit ? result : -1;
}

static int read_value(struct smi_options *options, const struct option *option, const char *value) {
  long n;
  switch (option->key) {
    case KEY_ID:
      options->id = value;
      return 0;
    case KEY_FILE:
      options->file = value;
      return 0;
    case KEY_FORMAT:
      return read_format(options, value) ? 0 : invalid();
    case KEY_DISPLAY:
      if (read_sections(options, value)) return 0;
      printf("Invalid display type: \"%.100s\"\n", value);
      return SMI_EXIT_INVALID;
    case KEY_LOOP:
    case KEY_LOOP_MS:
      n = value ? number(value, 1000000) : 5;
      if (n <= 0) return invalid();
      options->interval_ms = option->key == KEY_LOOP ? n * 1000 : n;
      return 0;
    default:
      break;
  }
  options->fields = value;
  if (option->action == SMI_SET_MIG || option->action == SMI_SET_PERSISTENCE) {
    const bool on = strcmp(value, "1") == 0 || strcasecmp(value, "ENABLED") == 0;
    if (!on && strcmp(value, "0") != 0 && strcasecmp(value, "DISABLED") != 0) return invalid();
    options->value = on;
  }
  return 0;
}

static bool is_complete(const struct smi_options *options, bool format, bool display) {
  const bool selective =
      options->action == SMI_QUERY_GPU || options->action == SMI_QUERY_APPS;
  if (format != selective) return false;
  return (options->action == SMI_QUERY) || !(options->xml || display);
}

int smi_options_read(struct smi_options *options, int argc, char **argv) {
  *options = (struct smi_options){.action = SMI_SUMMARY, .header = true, .units = true};
  bool format = false, display = false;
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *equals = strchr(word, '=');
    const struct option *option = find(word, equals ? (size_t)(equals - word) : strlen(word));
    if (!option) {
      printf("ERROR: Option %.100s is not recognized. Please run 'nvidia-smi -h'.\n", word);
      return SMI_EXIT_INVALID;
    }
    const char *value = equals ? equals + 1 : NULL;
    if (option->takes == NOTHING && value) return invalid();
    if (option->takes == VALUE && !value && !(value = argv[++i])) return invalid();
    if (option->takes == MAYBE && !value && i + 1 < argc && number(argv[i + 1], 1000000) >= 0)
      value = argv[++i];
    if (option->key == KEY_REFUSED) {
      printf("%s is not supported by the simulated GPUs of Tessera.\n", option->name);
      return SMI_EXIT_UNSUPPORTED;
    }
    if (option->key == KEY_ACTION) {
      if (options->action != SMI_SUMMARY) return invalid();
      options->action = option->action;
    }
    if (option->key == KEY_XML) options->xml = true;
    format |= option->key == KEY_FORMAT;
    display |= option->key == KEY_DISPLAY;
    if (option->takes == NOTHING) continue;
    const int status = read_value(options, option, value);
    if (status) return status;
  }
  return is_complete(options, format, display) ? 0 : invalid();
}
