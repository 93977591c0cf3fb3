/* Tessera's ptxas: has the command line, messages and exit statuses of NVIDIA's PTX assembler.
   Its output is the PTX itself, because Tessera's driver compiles PTX (ADR 132). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "options.h"
#include "report.h"
#include "text.h"

enum { PIECE_BYTES = 1 << 16 };

static void print_version(void) {
  /* Triton, XLA and nvcc's wrappers look for "release" and "V". */
  puts("ptxas: Tessera's PTX assembler\n"
       "Cuda compilation tools, release 13.0, V13.0.88");
}

static void write_all(int file, const char *path, const char *data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(file, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) report_fatal("Output file '%s' could not be written", path);
    data += written;
    bytes -= (size_t)written;
  }
}

static void copy_all(int from, int to, const char *path) {
  char piece[PIECE_BYTES];
  off_t at = 0;
  for (;;) {
    const ssize_t got = pread(from, piece, sizeof piece, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) report_fatal("Output file '%s' could not be written", path);
    if (got == 0) return;
    write_all(to, path, piece, (size_t)got);
    at += got;
  }
}

int main(int argc, char **argv) {
  struct options options;
  options_read(&options, argc, argv);
  if (options.print_help) options_print_help();
  if (options.print_version) print_version();
  if (options.list_architectures) options_list_architectures();
  if (options.print_help || options.print_version || options.list_architectures) return 0;
  if (!options.input && !options.input_text) report_fatal("Must specify an input file");
  struct text text;
  text_read(&text, options.input, options.input_text);
  text_check(&text, options.architecture);
  const int container = check_text(&options, &text);
  if (options.parse_only) return 0;
  const int file = open(options.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) report_fatal("Output file '%s' could not be opened", options.output);
  if (container >= 0)
    copy_all(container, file, options.output);
  else
    /* The NUL ends the text for loaders that are given a pointer without a size. */
    write_all(file, options.output, text.data, text.bytes + 1);
  if (close(file) != 0) report_fatal("Output file '%s' could not be written", options.output);
  return 0;
}
