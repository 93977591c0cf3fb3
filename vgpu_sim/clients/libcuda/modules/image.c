#define _GNU_SOURCE
#include "modules/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tessera_abi.h"
#include "unsupported.h"

/* A container of Tessera's ISA: vgpu_sim/isa/sections.py. */
static const char container_magic[8] = "\x89TISA\r\n\x1a";
/* tsr_image_measure examines at most this many bytes. */
enum { CONTAINER_SIZE_OFFSET = 32, IMAGE_PADDING_BYTES = 64 };

/* The multiple to which ptxas rounds a limit for sm_70 and later, and the maximum of a thread. */
enum { FEWEST_REGISTERS = 24, MOST_REGISTERS = 255 };

/* Formats that toolkits generate for hardware. */
static const unsigned char elf_magic[4] = {0x7f, 'E', 'L', 'F'};
enum { ELF_MACHINE_OFFSET = 18, ELF_VERSION_OFFSET = 6, MACHINE_CUDA = 190 };
static const unsigned char fatbin_magic[4] = {0x50, 0xed, 0x55, 0xba};
static const unsigned char fatbin_wrapper_magic[4] = {0xb1, 0x43, 0x62, 0x46};

CUresult tsr_image_measure(const void *image, size_t *bytes, const char **why) {
  *why = NULL;
  /* Texts end with a NUL, so a comparison does not read past their ends. */
  if (strncmp(image, (const char *)elf_magic, 4) == 0) {
    const unsigned char *elf = image;
    const int whole = elf[4] && elf[5] && elf[ELF_VERSION_OFFSET] == 1;
    if (!whole || elf[ELF_MACHINE_OFFSET] + (elf[ELF_MACHINE_OFFSET + 1] << 8) != MACHINE_CUDA) {
      *why = "the image is a program or library of the host, not GPU code";
      return CUDA_ERROR_INVALID_IMAGE;
    }
    *why = "the image is a cubin (machine code of other hardware): load its PTX instead";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (strncmp(image, (const char *)fatbin_magic, 4) == 0 ||
      strncmp(image, (const char *)fatbin_wrapper_magic, 4) == 0) {
    *why = "the image is a fat binary, which is not supported: load its PTX instead";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (strncmp(image, container_magic, sizeof container_magic) == 0) {
    uint64_t size;
    memcpy(&size, (const char *)image + CONTAINER_SIZE_OFFSET, sizeof size);
    *bytes = size;
  } else {
    *bytes = strnlen(image, TESSERA_MAX_IMAGE_BYTES + 1);
  }
  if (*bytes == 0 || *bytes > TESSERA_MAX_IMAGE_BYTES) {
    *why = "the image is empty or larger than 64 MiB";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return CUDA_SUCCESS;
}

void tsr_image_refused(void) { tsr_end_if_strict("an image", "was refused"); }

bool tsr_image_is_container(const void *image, size_t bytes) {
  uint64_t size;
  if (bytes < CONTAINER_SIZE_OFFSET + sizeof size) return false;
  memcpy(&size, (const char *)image + CONTAINER_SIZE_OFFSET, sizeof size);
  return memcmp(image, container_magic, sizeof container_magic) == 0 && size <= bytes;
}

char *tsr_image_read(const char *path) {
  size_t bytes;
  return tsr_image_read_sized(path, &bytes);
}

char *tsr_image_read_sized(const char *path, size_t *bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  const off_t size = lseek(fd, 0, SEEK_END);
  char *data = NULL;
  if (size >= 0 && size <= (off_t)TESSERA_MAX_IMAGE_BYTES)
    data = calloc(1, (size_t)size + IMAGE_PADDING_BYTES);
  off_t got = 0;
  while (data && got < size) {
    const ssize_t more = pread(fd, data + got, (size_t)(size - got), got);
    if (more <= 0) {
      free(data);
      data = NULL;
      break;
    }
    got += more;
  }
  close(fd);
  *bytes = (size_t)size;
  return data;
}

void tsr_log_buffers_read(struct tsr_log_buffers *buffers, unsigned count,
                          const CUjit_option *options, void **values) {
  *buffers = (struct tsr_log_buffers){0};
  for (unsigned i = 0; i < count; i++) {
    const unsigned number = (unsigned)(uintptr_t)values[i];
    switch (options[i]) {
      case CU_JIT_MAX_REGISTERS:
        buffers->max_registers = number <= MOST_REGISTERS ? number : 0;
        if (number > 0 && number < FEWEST_REGISTERS) buffers->max_registers = FEWEST_REGISTERS;
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        buffers->error = values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        buffers->error_bytes = (unsigned)(uintptr_t)values[i];
        buffers->error_bytes_out = &values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        buffers->info = values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        buffers->info_bytes = (unsigned)(uintptr_t)values[i];
        buffers->info_bytes_out = &values[i];
        break;
      default: /* optimisation levels, line information: hints to a compiler */
        break;
    }
  }
}

static void fill(char *buffer, size_t room, void **bytes_out, const char *log, size_t bytes) {
  size_t copied = 0;
  if (buffer && room > 0) {
    copied = bytes < room - 1 ? bytes : room - 1;
    if (copied) memcpy(buffer, log, copied);
    buffer[copied] = 0;
  }
  if (bytes_out) *bytes_out = (void *)(uintptr_t)copied;
}

void tsr_log_buffers_fill(const struct tsr_log_buffers *buffers, CUresult result, const char *log,
                          size_t bytes) {
  const size_t errors = result == CUDA_SUCCESS ? 0 : bytes;
  fill(buffers->error, buffers->error_bytes, buffers->error_bytes_out, log, errors);
  fill(buffers->info, buffers->info_bytes, buffers->info_bytes_out, log, bytes - errors);
}
