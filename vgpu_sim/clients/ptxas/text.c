#define _GNU_SOURCE
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "tessera_abi.h"

enum { PIECE_BYTES = 1 << 16 };

static void refuse_input(const char *name, const char *why) {
  fprintf(stderr, "ptxas fatal   : Input file '%s' %s\n", name, why);
  report_aborted();
}

void text_read(struct text *text, const char *path, const char *string) {
  if (string) {
    *text = (struct text){"application ptx input", strdup(string), strlen(string)};
    if (!text->data) report_fatal("out of memory");
    return;
  }
  *text = (struct text){.name = path};
  const int file = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse_input(path, "could not be opened");
  size_t room = 0;
  for (;;) {
    if (room - text->bytes < PIECE_BYTES + 1) {
      room = room ? 2 * room : 4 * PIECE_BYTES;
      text->data = realloc(text->data, room);
      if (!text->data) report_fatal("out of memory");
    }
    const ssize_t got = read(file, text->data + text->bytes, PIECE_BYTES);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_input(path, "could not be read");
    if (got == 0) break;
    text->bytes += (size_t)got;
    if (text->bytes > TESSERA_MAX_IMAGE_BYTES - 1) refuse_input(path, "is larger than 64 MiB");
  }
  text->data[text->bytes] = 0;
  const size_t all = text->bytes;
  text->bytes = strlen(text->data);
  for (size_t at = text->bytes; at < all; at++) /* a NUL ends the text; others may pad it */
    if (text->data[at]) refuse_input(path, "has text behind a NUL byte");
}

/* Skip white space and comments. */
static const char *skip(const char *at) {
  for (;;) {
    while (isspace((unsigned char)*at)) at++;
    if (at[0] == '/' && at[1] == '/') {
      at += strcspn(at, "\n");
    } else if (at[0] == '/' && at[1] == '*') {
      const char *end = strstr(at + 2, "*/");
      at = end ? end + 2 : at + strlen(at);
    } else {
      return at;
    }
  }
}

static const char *skip_word(const char *at) {
  while (*at && !isspace((unsigned char)*at) && *at != ',' && *at != '/') at++;
  return at;
}

static unsigned line_of(const struct text *text, const char *at) {
  unsigned line = 1;
  for (const char *one = text->data; one < at; one++) line += *one == '\n';
  return line;
}

__attribute__((noreturn)) static void fail(const struct text *text, const char *at,
                                           const char *what) {
  fprintf(stderr, "ptxas %s, line %u; fatal   : %s '%s'\n", text->name, line_of(text, at), what,
          text->name);
  report_aborted();
}

static bool begins(const char *at, const char *word) {
  const size_t length = strlen(word);
  return strncmp(at, word, length) == 0 && isspace((unsigned char)at[length]);
}

void text_check(const struct text *text, const char *architecture) {
  const char *at = skip(text->data);
  if (!begins(at, ".version"))
    fail(text, at, "Missing .version directive at start of file");
  at = skip(skip_word(skip(skip_word(at)))); /* the directive and its number */
  if (!begins(at, ".target")) fail(text, at, "Missing .target directive after .version in file");
  at = skip(skip_word(at));
  const long own = strtol(strchr(architecture, '_') + 1, NULL, 10);
  const long wanted = strncmp(at, "sm_", 3) == 0 ? strtol(at + 3, NULL, 10) : 0;
  if (wanted > own)
    report_fatal("SM version specified by .target is higher than default SM version assumed");
}
