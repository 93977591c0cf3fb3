#include "exchange/device_print.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 16, MAX_WIDTH = 1 << 16 };

/* A reader of a record; reading past its end yields zeros. */
struct reader {
  const char *text, *text_end;
  const uint8_t *value, *value_end;
};

/* The part of a conversion between % and its letter. */
struct conversion {
  char flags[8];
  int width, precision; /* 0 and -1: not given */
  int bits;             /* of integers */
};

static uint64_t take(struct reader *reader) {
  uint64_t value = 0;
  if (reader->value_end - reader->value < (ptrdiff_t)sizeof value) return 0;
  memcpy(&value, reader->value, sizeof value);
  reader->value += sizeof value;
  return value;
}

static int bounded(int64_t value) {
  if (value > MAX_WIDTH) return MAX_WIDTH;
  return value < -MAX_WIDTH ? -MAX_WIDTH : (int)value;
}

/* A C format with one letter after "*.*": only flags and the letter come from the kernel's
 * format, and both are validated. */
static const char *format_of(const struct conversion *found, const char *rest, char *buffer,
                             size_t size) {
  snprintf(buffer, size, "%%%s*.*%s", found->flags, rest);
  return buffer;
}

static int64_t as_signed(uint64_t value, int bits) {
  return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static void print_string(FILE *out, struct reader *reader, const struct conversion *found) {
  const int64_t length = (int64_t)take(reader);
  const int64_t room = reader->value_end - reader->value;
  const char *text = length < 0 ? "(null)" : (const char *)reader->value;
  int64_t shown = length < 0 ? 6 : length < room ? length : room;
  if (length > 0) reader->value += (shown + 7) / 8 * 8 < room ? (shown + 7) / 8 * 8 : room;
  if (found->precision >= 0 && found->precision < shown) shown = found->precision;
  const bool left = strchr(found->flags, '-') || found->width < 0;
  const int64_t blanks = (found->width < 0 ? -found->width : found->width) - shown;
  if (!left && blanks > 0) fprintf(out, "%*s", (int)blanks, "");
  fwrite(text, 1, (size_t)shown, out);
  if (left && blanks > 0) fprintf(out, "%*s", (int)blanks, "");
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* Convert one argument; false where the letter takes none. */
static bool print_value(FILE *out, struct reader *reader, struct conversion *found, char letter) {
  char buffer[32], rest[4] = {'l', 'l', letter, 0};
  switch (letter) {
    case 's': print_string(out, reader, found); return true;
    case 'n': take(reader); return true;
    case 'd': case 'i':
      fprintf(out, format_of(found, rest, buffer, sizeof buffer), found->width, found->precision,
              (long long)as_signed(take(reader), found->bits));
      return true;
    case 'u': case 'o': case 'x': case 'X':
      fprintf(out, format_of(found, rest, buffer, sizeof buffer), found->width, found->precision,
              (unsigned long long)take(reader) & (~0ull >> (64 - found->bits)));
      return true;
    case 'c':
      fprintf(out, strchr(found->flags, '-') ? "%-*c" : "%*c", found->width, (int)take(reader));
      return true;
    case 'p':
      fprintf(out, strchr(found->flags, '-') ? "%-*p" : "%*p", found->width,
              (void *)(uintptr_t)take(reader));
      return true;
    case 'a': case 'A': case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': {
      const uint64_t bits = take(reader);
      double value;
      memcpy(&value, &bits, sizeof value);
      fprintf(out, format_of(found, rest + 2, buffer, sizeof buffer), found->width,
              found->precision, value);
      return true;
    }
    default: return false;
  }
}

static void add_flag(struct conversion *found, char flag) {
  const size_t length = strlen(found->flags);
  if (!strchr(found->flags, flag) && length + 1 < sizeof found->flags) found->flags[length] = flag;
}

/* Read a width or precision: digits, or * with an argument. */
static void number(struct reader *reader, char c, int *value) {
  if (c == '*')
    *value = bounded(as_signed(take(reader), 32));
  else
    *value = bounded((*value < 0 ? 0 : *value) * INT64_C(10) + (c - '0'));
}

/* Format the conversion that begins with a %. This must agree with system_calls.ptx about which
 * letters take an argument, and about its size. */
static void convert(FILE *out, struct reader *reader) {
  const char *const begin = reader->text;
  struct conversion found = {.precision = -1, .bits = 32};
  bool precise = false;
  for (; reader->text < reader->text_end; reader->text++) {
    const char c = *reader->text;
    if (c == 'h')
      found.bits = found.bits == 64 ? 64 : found.bits == 16 ? 8 : 16;
    else if (c && strchr("ljzt", c))
      found.bits = 64;
    else if (c == '.')
      precise = true, found.precision = 0;
    else if (c == '*' || (c >= '1' && c <= '9') || (c == '0' && (precise || found.width)))
      number(reader, c, precise ? &found.precision : &found.width);
    else if (c && strchr(" #+-0", c))
      add_flag(&found, c);
    else if (c != '\'' && c != 'L')
      break;
  }
  if (reader->text == reader->text_end) return;
  const char letter = *reader->text++;
  if (letter == '%')
    fputc('%', out);
  else if (!print_value(out, reader, &found, letter)) /* printed unchanged */
    fprintf(out, "%%%.*s", (int)(reader->text - begin), begin);
}

void tsr_device_print(uint32_t kind, const uint8_t *record, uint32_t bytes) {
  uint64_t text_bytes;
  if (bytes < HEAD_BYTES) return;
  memcpy(&text_bytes, record + 8, sizeof text_bytes);
  if (text_bytes == 0 || text_bytes > bytes - HEAD_BYTES) return;
  const char *const text = (const char *)record + HEAD_BYTES;
  struct reader reader = {.text = text,
                          .text_end = text + text_bytes - 1,
                          .value = record + HEAD_BYTES + (text_bytes + 7) / 8 * 8,
                          .value_end = record + bytes};
  FILE *const out = kind == TSR_PRINT_ASSERTION ? stderr : stdout;
  while (reader.text < reader.text_end) {
    const char *const percent = memchr(reader.text, '%', (size_t)(reader.text_end - reader.text));
    const char *const until = percent ? percent : reader.text_end;
    fwrite(reader.text, 1, (size_t)(until - reader.text), out);
    reader.text = percent ? percent + 1 : until;
    if (percent) convert(out, &reader);
  }
}

void tsr_device_print_flush(void) { fflush(stdout); }
