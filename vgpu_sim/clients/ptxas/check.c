#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

/* The Python that has Tessera; set by `tessera run` and `tessera ptxas`. */
static const char python_variable[] = "TESSERA_PTXAS_PYTHON";
enum {
  STATUS_WRONG_TEXT = 65, /* vgpu_sim.cli.ptxas.check; Python never ends with it by itself */
  STATUS_NOT_STARTED = 127
};

static int new_file(const char *name, const char *data, size_t bytes) {
  /* glibc has no memfd_create before 2.27 */
  const int file = (int)syscall(SYS_memfd_create, name, 0u);
  while (file >= 0 && bytes > 0) {
    const ssize_t written = write(file, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) report_fatal("out of memory");
    data += written;
    bytes -= (size_t)written;
  }
  if (file < 0 || lseek(file, 0, SEEK_SET) != 0) report_fatal("out of memory");
  return file;
}

__attribute__((noreturn)) static void run(const char *python, const struct options *options,
                                          const char *name, int input, int output) {
  char *arguments[] = {
      (char *)python, "-I", "-m", "vgpu_sim.cli.ptxas.check", (char *)options->architecture,
      (char *)name, options->verbose ? "verbose" : "quiet",
      options->emit_container ? "container" : "ptx", NULL,
  };
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0)
    execv(python, arguments);
  _exit(STATUS_NOT_STARTED);
}

int check_text(const struct options *options, const struct text *text) {
  const char *python = getenv(python_variable);
  if (!python || !*python) {
    if (options->emit_container)
      report_fatal("option 'emit' needs Tessera's compiler: run `tessera ptxas`");
    return -1; /* the driver checks the text when a program loads it */
  }
  const int input = new_file("ptx", text->data, text->bytes);
  const int output = new_file("container", "", 0);
  const pid_t child = fork();
  if (child == 0) run(python, options, text->name, input, output);
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  close(input);
  const bool ended = child > 0 && WIFEXITED(status);
  if (ended && WEXITSTATUS(status) == 0) {
    if (options->emit_container) return output;
  } else if (ended && WEXITSTATUS(status) == STATUS_WRONG_TEXT) {
    report_aborted(); /* the compiler has reported the mistakes */
  } else if (options->emit_container) {
    report_fatal("Tessera's compiler failed or could not be started: %s", python);
  } else {
    report_warning("Tessera's compiler failed or could not be started (%s), so the driver checks "
                   "the PTX when it is loaded", python);
  }
  close(output);
  return -1;
}
