/* The places of NVIDIA's NVRTC: where cuda-pathfinder and the loader search, in pathfinder's order.
   Python's packages are found by the libraries that the process has loaded from there. */
#define _GNU_SOURCE
#include <dirent.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "library.h"

struct search {
  int major;
  char *path; /* PATH_BYTES; what is found */
};

/* Recognise this library, of any build. NVIDIA's is larger than the part that is read. */
static bool is_own(const char *path) {
  enum { PART_BYTES = 1 << 20 };
  FILE *file = fopen(path, "re");
  char *part = file ? malloc(PART_BYTES) : NULL;
  const size_t bytes = part ? fread(part, 1, PART_BYTES, file) : 0;
  const bool own = part && memmem(part, bytes, LIBRARY_MARK, sizeof LIBRARY_MARK - 1) != NULL;
  free(part);
  if (file) fclose(file);
  return own;
}

__attribute__((format(printf, 2, 3))) static bool try(struct search *search, const char *format,
                                                      ...) {
  char folder[PATH_BYTES];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(folder, sizeof folder, format, arguments);
  va_end(arguments);
  if (length <= 0 || length >= PATH_BYTES) return false;
  const int wanted =
      snprintf(search->path, PATH_BYTES, "%s/libnvrtc.so.%d", folder, search->major);
  /* A path without "/" at its start would change with the working directory. */
  if (wanted >= PATH_BYTES || search->path[0] != '/' || access(search->path, R_OK) != 0) return false;
  return !is_own(search->path);
}

static bool try_packages(struct search *search, const char *packages, int length) {
  const char *below = search->major == 12 ? "cuda_nvrtc" : "cu13";
  return try(search, "%.*s/nvidia/%s/lib", length, packages, below);
}

/* Search in the folder of packages that contains a loaded library. */
static int try_loaded(struct dl_phdr_info *loaded, size_t size, void *search) {
  static const char *const names[] = {"/site-packages/", "/dist-packages/"};
  (void)size;
  for (size_t i = 0; loaded->dlpi_name && i < sizeof names / sizeof *names; i++) {
    const char *found = strstr(loaded->dlpi_name, names[i]);
    if (!found) continue;
    const int length = (int)(found - loaded->dlpi_name + (long)strlen(names[i]) - 1);
    if (try_packages(search, loaded->dlpi_name, length)) return 1;
  }
  return 0;
}

/* Search in the packages of the Python below a folder such as that of a virtual environment. */
static bool try_python(struct search *search, const char *prefix, int length) {
  char libraries[PATH_BYTES], packages[PATH_BYTES];
  if (snprintf(libraries, sizeof libraries, "%.*s/lib", length, prefix) >= PATH_BYTES) return false;
  DIR *directory = opendir(libraries);
  if (!directory) return false;
  bool found = false;
  for (const struct dirent *one; !found && (one = readdir(directory));) {
    if (strncmp(one->d_name, "python3", 7) != 0) continue;
    const int wanted =
        snprintf(packages, sizeof packages, "%s/%s/site-packages", libraries, one->d_name);
    found = wanted < PATH_BYTES && try_packages(search, packages, wanted);
  }
  closedir(directory);
  return found;
}

/* Search beside the program, as <prefix>/bin/python: a virtual environment need not be activated. */
static bool try_program(struct search *search) {
  const char *program = (const char *)getauxval(AT_EXECFN);
  const char *end = program && program[0] == '/' ? strrchr(program, '/') : NULL;
  if (!end || end - program < 4 || strncmp(end - 4, "/bin", 4) != 0) return false;
  return try_python(search, program, (int)(end - 4 - program));
}

static bool try_list(struct search *search, const char *folders) {
  for (const char *one = folders; one && *one;) {
    const int length = (int)strcspn(one, ":");
    if (length > 0 && try(search, "%.*s", length, one)) return true;
    one += length + (one[length] == ':');
  }
  return false;
}

static bool find_near(struct search *search) {
  const char *own = secure_getenv("TESSERA_NVRTC");
  if (own && try(search, "%s", own)) return true;
  if (dl_iterate_phdr(try_loaded, search)) return true;
  const char *environment = secure_getenv("VIRTUAL_ENV");
  if (environment && try_python(search, environment, (int)strlen(environment))) return true;
  if (try_program(search)) return true;
  const char *conda = secure_getenv("CONDA_PREFIX");
  if (conda && try(search, "%s/lib", conda)) return true;
  return try_list(search, secure_getenv("LD_LIBRARY_PATH"));
}

static bool find_toolkit(struct search *search) {
  static const char *const variables[] = {"CUDA_PATH", "CUDA_HOME"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *toolkit = secure_getenv(variables[i]);
    if (toolkit && try(search, "%s/lib64", toolkit)) return true;
  }
  return try_list(search, "/usr/local/cuda/lib64:/usr/lib/x86_64-linux-gnu:/usr/lib64:/usr/lib");
}

/* A toolkit of the system does not count if Python's packages have another major version:
   pathfinder would take the newer of two that are loaded. */
bool places_find(int major, char path[PATH_BYTES]) {
  struct search search = {major, path};
  if (find_near(&search)) return true;
  struct search other = {25 - major, path};
  return !find_near(&other) && find_toolkit(&search);
}
