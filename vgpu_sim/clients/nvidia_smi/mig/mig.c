#define _GNU_SOURCE
#include "mig/mig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exits.h"
#include "outputs.h"

static const struct {
  const char *letter, *name;
  enum smi_mig_verb verb;
} verbs[] = {
    {"-lgip", "--list-gpu-instance-profiles", SMI_MIG_LGIP},
    {"-lgipp", "--list-gpu-instance-possible-placements", SMI_MIG_LGIPP},
    {"-lgi", "--list-gpu-instances", SMI_MIG_LGI},
    {"-lcip", "--list-compute-instance-profiles", SMI_MIG_LCIP},
    {"-lci", "--list-compute-instances", SMI_MIG_LCI},
    {"-cgi", "--create-gpu-instance", SMI_MIG_CGI},
    {"-cci", "--create-compute-instance", SMI_MIG_CCI},
    {"-dgi", "--destroy-gpu-instance", SMI_MIG_DGI},
    {"-dci", "--destroy-compute-instance", SMI_MIG_DCI},
};

/* Parse "0,1,2"; false if the text is not a list of ids. */
static bool read_ids(const char *value, unsigned ids[SMI_MAX_IDS], unsigned *count) {
  char words[512];
  if (snprintf(words, sizeof words, "%s", value) >= (int)sizeof words) return false;
  for (char *rest = words, *word; (word = strsep(&rest, ",")) != NULL;) {
    char *end;
    const unsigned long id = strtoul(word, &end, 10);
    if (*word < '0' || *word > '9' || *end || id > 1000 || *count == SMI_MAX_IDS) return false;
    ids[(*count)++] = (unsigned)id;
  }
  return true;
}

static bool is(const char *word, size_t length, const char *letter, const char *name) {
  return (strlen(letter) == length && strncmp(word, letter, length) == 0) ||
         (strlen(name) == length && strncmp(word, name, length) == 0);
}

static int invalid(void) {
  puts("Invalid combination of input arguments. Please run 'nvidia-smi mig -h' for help.");
  return SMI_EXIT_INVALID;
}

static int read(struct smi_mig_options *options, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *equals = strchr(word, '=');
    const size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const char *next = equals ? equals + 1 : i + 1 < argc ? argv[i + 1] : NULL;
    enum smi_mig_verb verb = SMI_MIG_NONE;
    for (size_t k = 0; k < sizeof verbs / sizeof *verbs; k++)
      if (is(word, length, verbs[k].letter, verbs[k].name)) verb = verbs[k].verb;
    if (verb) {
      if (options->verb) return invalid();
      options->verb = verb;
      const bool creates = verb == SMI_MIG_CGI || verb == SMI_MIG_CCI;
      const bool value = creates && next && *next != '-';
      if (verb == SMI_MIG_CGI && !value) return invalid();
      if (value) options->profiles = next;
      i += value && !equals;
    } else if (is(word, length, "-C", "--default-compute-instance")) {
      options->compute_too = true;
    } else if (!next) {
      printf("Option \"%.100s\" is not recognized.\n", word);
      return SMI_EXIT_INVALID;
    } else {
      bool good = true;
      if (is(word, length, "-i", "--id")) {
        options->id = next;
      } else if (is(word, length, "-gi", "--gpu-instance-id")) {
        good = read_ids(next, options->gi, &options->gi_count);
      } else if (is(word, length, "-ci", "--compute-instance-id")) {
        good = read_ids(next, options->ci, &options->ci_count);
      } else {
        printf("Option \"%.100s\" is not recognized.\n", word);
        return SMI_EXIT_INVALID;
      }
      if (!good) return invalid();
      i += !equals;
    }
  }
  const bool wrong = !options->verb || (options->compute_too && options->verb != SMI_MIG_CGI);
  return wrong ? invalid() : SMI_EXIT_SUCCESS;
}

/* Keep only the GPUs in MIG mode, except where profiles are listed. */
static int keep_enabled(struct smi_gpus *gpus) {
  unsigned kept = 0;
  for (unsigned i = 0; i < gpus->count; i++)
    if (gpus->list[i].mig_enabled) gpus->list[kept++] = gpus->list[i];
  gpus->count = kept;
  if (kept) return SMI_EXIT_SUCCESS;
  puts("No MIG-enabled devices found.");
  return SMI_EXIT_NOT_FOUND;
}

int smi_mig(int argc, char **argv) {
  static struct smi_gpus gpus;
  struct smi_mig_options options = {.verb = SMI_MIG_NONE};
  int status = read(&options, argc, argv);
  if (!status) status = smi_gpus_choose(&gpus, options.id);
  const bool any = options.verb == SMI_MIG_LGIP || options.verb == SMI_MIG_LGIPP;
  if (!status && !any) status = keep_enabled(&gpus);
  if (status) return status;
  switch (options.verb) {
    case SMI_MIG_CGI:
      return smi_mig_create_gpu_instances(&gpus, &options);
    case SMI_MIG_CCI:
      return smi_mig_create_compute_instances(&gpus, &options);
    case SMI_MIG_DGI:
    case SMI_MIG_DCI:
      return smi_mig_destroy(&gpus, &options);
    default:
      return smi_mig_list(&gpus, &options);
  }
}
