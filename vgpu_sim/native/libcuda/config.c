#include "config.h"

#include <stdlib.h>
#include <string.h>

static struct tsr_config config = {.slices_dir = "/run/tessera/slices"};

static const char *text(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

static bool enabled(const char *name) {
  const char *value = text(name);
  return value && strcmp(value, "0") != 0;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static bool read_token(const char *value, uint8_t *token) {
  if (strlen(value) != 2 * TESSERA_TOKEN_BYTES) return false;
  for (size_t i = 0; i < TESSERA_TOKEN_BYTES; i++) {
    const int high = hex_digit(value[2 * i]), low = hex_digit(value[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    token[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

void tsr_config_read(void) {
  const char *log = text("TESSERA_LOG");
  config.quiet = log && strcmp(log, "quiet") == 0;
  config.strict = enabled("TESSERA_STRICT");
  config.relaxed = enabled("TESSERA_RELAXED");
  const char *directory = text("TESSERA_SLICES_DIR");
  config.slices_dir = directory ? directory : "/run/tessera/slices";
  config.visible_devices = getenv("CUDA_VISIBLE_DEVICES"); /* empty means none, so no text() */
  config.trace_path = text("TESSERA_TRACE");
  const char *token = text("TESSERA_TOKEN");
  memset(config.token, 0, sizeof config.token);
  config.token_valid = !token || read_token(token, config.token);
}

const struct tsr_config *tsr_config(void) { return &config; }
