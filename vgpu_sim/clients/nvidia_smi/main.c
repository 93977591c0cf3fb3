/* Tessera's nvidia-smi: prints NVML's information about simulated GPUs in the formats of NVIDIA's
   command of that name. It uses no interface other than NVML's public functions (ADR 56). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exits.h"
#include "nvml/nvml.h"
#include "outputs.h"
#include "readings/readings.h"
#include "version.h"

static int start(void) {
  if (!smi_nvml_load()) {
    puts("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that"
         " the NVIDIA Display Driver is properly installed and present in your system.\n"
         "Tessera: a container gets libnvidia-ml.so.1 with its slice, a program with `tessera"
         " run`.");
    return SMI_EXIT_NO_LIBRARY;
  }
  const nvmlReturn_t status = nvml_Init_v2();
  if (status == NVML_ERROR_DRIVER_NOT_LOADED) {
    puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure"
         " that the latest NVIDIA driver is installed and running.\n"
         "Tessera: no slice is mounted here, or gpud does not answer.");
    return SMI_EXIT_NO_DRIVER;
  }
  if (status) printf("Failed to initialize NVML: %s\n", smi_nvml_text(status));
  return smi_exit_of(status);
}

static int versions(void) {
  struct smi_text nvml, driver, cuda;
  nvml.status = driver.status = cuda.status = NVML_SUCCESS;
  smi_read_nvml_version(NULL, 0, &nvml);
  smi_read_driver_version(NULL, 0, &driver);
  smi_read_cuda_version(NULL, 0, &cuda);
  printf("Tessera-SMI version : %s\nNVML version        : %s\nDRIVER version      : %s\n"
         "CUDA Version        : %s\n",
         SMI_VERSION, smi_text_shown(&nvml), smi_text_shown(&driver), smi_text_shown(&cuda));
  return SMI_EXIT_SUCCESS;
}

static int once(const struct smi_options *options, bool first) {
  static struct smi_gpus gpus;
  if (options->action == SMI_VERSION_LINES) return versions();
  const int status = smi_gpus_choose(&gpus, options->id);
  if (status) return status;
  switch (options->action) {
    case SMI_LIST:
      return smi_list(&gpus);
    case SMI_QUERY:
      return smi_query(&gpus, options->xml, options->sections);
    case SMI_QUERY_GPU:
      return smi_query_gpu(&gpus, options, first);
    case SMI_QUERY_APPS:
      return smi_query_apps(&gpus, options, first);
    case SMI_SET_MIG:
    case SMI_SET_PERSISTENCE:
      return smi_set(&gpus, options);
    default:
      return smi_summary(&gpus);
  }
}

static int run(const struct smi_options *options) {
  const struct timespec interval = {options->interval_ms / 1000,
                                    options->interval_ms % 1000 * 1000000};
  if (options->file && !freopen(options->file, "w", stdout)) {
    fprintf(stderr, "Failed to open %s: %s\n", options->file, strerror(errno));
    return SMI_EXIT_OTHER;
  }
  int status = start();
  for (bool first = true; status == SMI_EXIT_SUCCESS; first = false) {
    status = once(options, first);
    /* A closed output pipe ends a loop. */
    if (!options->interval_ms || fflush(stdout) || ferror(stdout)) break;
    nanosleep(&interval, NULL);
  }
  return status;
}

int main(int argc, char **argv) {
  static const char *const refused[] = {"dmon",   "daemon", "replay", "pmon",  "nvlink", "clocks",
                                        "vgpu",   "drain",  "boost-slider",    "power-hint",
                                        "encodersessions",  "fbcsessions",     "conf-compute",
                                        "power-smoothing",  "stats",  "compute-policy", "c2c"};
  struct smi_options options;
  int status;
  if (argc > 1 && (strcmp(argv[1], "mig") == 0 || strcmp(argv[1], "topo") == 0)) {
    const bool help = argc > 2 && (strcmp(argv[2], "-h") == 0 || strcmp(argv[2], "--help") == 0);
    if (help) {
      smi_help();
      return SMI_EXIT_SUCCESS;
    }
    status = start();
    if (!status) status = (*argv[1] == 'm' ? smi_mig : smi_topology)(argc - 1, argv + 1);
  } else {
    for (size_t i = 0; argc > 1 && i < sizeof refused / sizeof *refused; i++)
      if (strcmp(argv[1], refused[i]) == 0) {
        printf("%s is not supported by the simulated GPUs of Tessera.\n", argv[1]);
        return SMI_EXIT_UNSUPPORTED;
      }
    status = smi_options_read(&options, argc, argv);
    if (status) return status;
    if (options.action == SMI_HELP)
      smi_help();
    else if (options.action == SMI_HELP_GPU)
      smi_help_query_gpu();
    else if (options.action == SMI_HELP_APPS)
      smi_help_query_apps();
    else
      status = run(&options);
  }
  nvml_Shutdown();
  /* A failed write is an error. */
  return fflush(stdout) || ferror(stdout) ? SMI_EXIT_OTHER : status;
}
