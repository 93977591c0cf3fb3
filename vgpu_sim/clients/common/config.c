#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { DEFAULT_WAIT_S = 60, MAX_WAIT_S = 3600 };
static const char DEFAULT_SLICES_DIR[] = "/run/tessera/slices";

static struct tsr_config config = {.slices_dir = DEFAULT_SLICES_DIR, .wait_s = DEFAULT_WAIT_S};

static const char *text(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* Log once for each variable that its value is invalid. */
static void ignore(bool *said, const char *name, const char *value, const char *wanted) {
  if (!*said) tsr_log("%s=%s is ignored: it must be %s", name, value, wanted);
  *said = true;
}

static void read_log(void) {
  static bool said;
  const char *value = text("TESSERA_LOG");
  const bool quiet = value && strcmp(value, "quiet") == 0;
  tsr_log_silence(quiet);
  if (value && !quiet) ignore(&said, "TESSERA_LOG", value, "quiet, or unset");
}

static bool read_switch(bool *said, const char *name) {
  const char *value = text(name);
  if (!value || strcmp(value, "0") == 0) return false;
  if (strcmp(value, "1") == 0) return true;
  ignore(said, name, value, "0 or 1");
  return false;
}

static int read_wait(void) {
  static bool said;
  const char *value = text("TESSERA_WAIT_S");
  if (!value) return DEFAULT_WAIT_S;
  char *end;
  const long seconds = strtol(value, &end, 10);
  if (*end == 0 && seconds >= 0 && seconds <= MAX_WAIT_S) return (int)seconds;
  ignore(&said, "TESSERA_WAIT_S", value, "a number of seconds from 0 to 3600");
  return DEFAULT_WAIT_S;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static bool parse_token(const char *value, uint8_t *token) {
  if (strlen(value) != 2 * TESSERA_TOKEN_BYTES) return false;
  for (size_t i = 0; i < TESSERA_TOKEN_BYTES; i++) {
    const int high = hex_digit(value[2 * i]), low = hex_digit(value[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    token[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

static void read_token(uint8_t *token) {
  static bool said;
  const char *value = text("TESSERA_TOKEN");
  memset(token, 0, TESSERA_TOKEN_BYTES);
  if (value && !parse_token(value, token)) /* not the value, which may contain most of a secret */
    ignore(&said, "TESSERA_TOKEN", "(not shown)", "64 hexadecimal digits");
}

void tsr_config_read(void) {
  static bool said_strict, said_relaxed;
  read_log();
  config.strict = read_switch(&said_strict, "TESSERA_STRICT");
  config.relaxed = read_switch(&said_relaxed, "TESSERA_RELAXED");
  const char *directory = text("TESSERA_SLICES_DIR");
  config.slices_dir = directory ? directory : DEFAULT_SLICES_DIR;
  config.trace_path = text("TESSERA_TRACE");
  config.wait_s = read_wait();
  read_token(config.token);
}

const struct tsr_config *tsr_config(void) { return &config; }
