#define _GNU_SOURCE
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

int tsr_trace_fd = -1;

void tsr_trace_open(const char *path) {
  if (!path || tsr_trace_fd >= 0) return;
  tsr_trace_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (tsr_trace_fd < 0) tsr_log("cannot open TESSERA_TRACE=%s", path);
}

struct line {
  char text[2048];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...) {
  const size_t room = sizeof line->text - 1 - line->used;
  va_list arguments;
  va_start(arguments, format);
  const int wanted = vsnprintf(line->text + line->used, room, format, arguments);
  va_end(arguments);
  if (wanted > 0) line->used += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

static void put_value(struct line *line, char mark, uint64_t value, bool succeeded) {
  if (mark == '$' && value) {
    put(line, "\"%.200s\"", (const char *)(uintptr_t)value);
  } else if (mark == '&' && value && succeeded) {
    uint64_t pointed;
    memcpy(&pointed, (const void *)(uintptr_t)value, sizeof pointed);
    put(line, "[0x%llx]", (unsigned long long)pointed);
  } else if (mark == '%' && value && succeeded) {
    int32_t pointed;
    memcpy(&pointed, (const void *)(uintptr_t)value, sizeof pointed);
    put(line, "[%d]", pointed);
  } else if (value < 1u << 20) {
    put(line, "%llu", (unsigned long long)value);
  } else {
    put(line, "0x%llx", (unsigned long long)value);
  }
}

/* A line that cannot be written completely is lost. This is logged once, and the program
 * continues. */
static void write_line(const struct line *line) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const ssize_t written = write(tsr_trace_fd, line->text, line->used);
  if (written == (ssize_t)line->used || atomic_flag_test_and_set(&said)) return;
  tsr_log("TESSERA_TRACE: calls are missing from the trace: %s",
          written < 0 ? strerror(errno) : "a line was cut off");
}

void tsr_trace(const char *function, const char *names, const uint64_t *values, int status,
               uint64_t started_ns) {
  const uint64_t took_ns = tsr_now_ns() - started_ns;
  struct line line = {.used = 0};
  put(&line, "%llu.%09llu %ld %s(", (unsigned long long)(started_ns / 1000000000u),
      (unsigned long long)(started_ns % 1000000000u), syscall(SYS_gettid), function);
  for (size_t i = 0; *names; i++) {
    const char mark = strchr("$&%", *names) ? *names++ : 0;
    const size_t length = strcspn(names, " ");
    put(&line, "%s%.*s=", i ? ", " : "", (int)length, names);
    put_value(&line, mark, values[i], status == 0);
    names += length;
    while (*names == ' ') names++;
  }
  put(&line, ") = %d %llu ns", status, (unsigned long long)took_ns);
  line.text[line.used++] = '\n';
  write_line(&line);
}
