/* The inputs of a link. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "tessera_abi.h"

static const char container_magic[] = "\x89TISA\r\n\x1a";
static const char *const type_names[] = {"ANY",    "CUBIN",  "PTX",     "LTOIR",
                                         "FATBIN", "OBJECT", "LIBRARY", "INDEX"};

static bool begins(const uint8_t *data, size_t bytes, const char *magic, size_t length) {
  return bytes >= length && memcmp(data, magic, length) == 0;
}

/* Recognise PTX: a text whose first word after comments is ".version". */
static bool is_ptx(const uint8_t *data, size_t bytes) {
  size_t at = 0;
  for (;;) {
    while (at < bytes && strchr(" \t\r\n", data[at]) && data[at]) at++;
    if (begins(data + at, bytes - at, "//", 2)) {
      const uint8_t *end = memchr(data + at, '\n', bytes - at);
      if (!end) return false;
      at = (size_t)(end - data);
    } else if (begins(data + at, bytes - at, "/*", 2)) {
      const uint8_t *end = memmem(data + at + 2, bytes - at - 2, "*/", 2);
      if (!end) return false;
      at = (size_t)(end - data) + 2;
    } else {
      return begins(data + at, bytes - at, ".version", 8);
    }
  }
}

/* Return the type of data, or 0 if it has none of the known formats. */
static unsigned recognise(const uint8_t *data, size_t bytes) {
  enum { ELF_MACHINE = 18, MACHINE_CUDA = 190 };
  if (is_ptx(data, bytes)) return NVJITLINK_INPUT_PTX;
  if (begins(data, bytes, container_magic, 8)) return NVJITLINK_INPUT_CUBIN;
  if (begins(data, bytes, "\x50\xed\x55\xba", 4)) return NVJITLINK_INPUT_FATBIN;
  if (begins(data, bytes, "!<arch>\n", 8)) return NVJITLINK_INPUT_LIBRARY;
  if (!begins(data, bytes, "\x7f" "ELF", 4) || bytes < ELF_MACHINE + 2) return 0;
  const unsigned machine = data[ELF_MACHINE] | data[ELF_MACHINE + 1] << 8;
  return machine == MACHINE_CUDA ? NVJITLINK_INPUT_CUBIN : NVJITLINK_INPUT_OBJECT;
}

/* LTO-IR is code of NVIDIA's compiler in a format that is not public. */
static nvJitLinkResult refuse_lto(struct nvJitLink *link, const char *name) {
  static const char why[] =
      "LTO-IR, which Tessera cannot link: pass PTX (compile without -dlto, -gen-lto or lto=True)";
  state_report(link, "error   : input '%s' is %s", name, why);
  const char *log = getenv("TESSERA_LOG");
  if (!log || strcmp(log, "quiet") != 0)
    fprintf(stderr, "tessera: nvJitLinkAddData: input '%s' is %s\n", name, why);
  return NVJITLINK_ERROR_INCORRECT_INPUT_TYPE;
}

nvJitLinkResult inputs_add(struct nvJitLink *link, nvJitLinkInputType type, const void *data,
                           size_t bytes, const char *name) {
  if (!name) name = "<input>";
  if (bytes == 0 || bytes > TESSERA_MAX_IMAGE_BYTES) {
    state_report(link, "error   : input '%s' is empty or larger than 64 MiB", name);
    return NVJITLINK_ERROR_INVALID_INPUT;
  }
  if (type == NVJITLINK_INPUT_LTOIR) return refuse_lto(link, name);
  const unsigned found = recognise(data, bytes);
  /* Tessera's NVRTC returns PTX as a cubin (ADR 141). */
  const bool as_cubin = type == NVJITLINK_INPUT_CUBIN && found == NVJITLINK_INPUT_PTX;
  if (found == 0 || (type != NVJITLINK_INPUT_ANY && type != found && !as_cubin)) {
    const unsigned stated = type <= NVJITLINK_INPUT_INDEX ? type : 0;
    state_report(link, "error   : input '%s' does not match type NVJITLINK_INPUT_%s", name,
                 type_names[stated]);
    return NVJITLINK_ERROR_INCORRECT_INPUT_TYPE;
  }
  struct input *grown = realloc(link->inputs, (link->input_count + 1) * sizeof *grown);
  if (!grown) return NVJITLINK_ERROR_INTERNAL;
  link->inputs = grown;
  struct input one = {(nvJitLinkInputType)found, strdup(name), malloc(bytes), bytes};
  if (!one.name || !one.data) {
    free(one.name);
    free(one.data);
    return NVJITLINK_ERROR_INTERNAL;
  }
  memcpy(one.data, data, bytes);
  link->inputs[link->input_count++] = one;
  return NVJITLINK_SUCCESS;
}

nvJitLinkResult inputs_add_file(struct nvJitLink *link, nvJitLinkInputType type,
                                const char *path) {
  FILE *file = fopen(path, "re");
  uint8_t *data = file ? malloc(TESSERA_MAX_IMAGE_BYTES + 1) : NULL;
  nvJitLinkResult result = NVJITLINK_ERROR_INVALID_INPUT;
  if (data) {
    const size_t bytes = fread(data, 1, TESSERA_MAX_IMAGE_BYTES + 1, file);
    result = inputs_add(link, type, data, bytes, path);
  } else {
    state_report(link, "error   : file '%s' cannot be read", path);
  }
  free(data);
  if (file) fclose(file);
  return result;
}

void inputs_free(struct nvJitLink *link) {
  for (size_t i = 0; i < link->input_count; i++) {
    free(link->inputs[i].name);
    free(link->inputs[i].data);
  }
  free(link->inputs);
}
