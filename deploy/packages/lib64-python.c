// python3 with its libraries in lib64, as Fedora builds it: what ./configure --with-platlibdir=lib64 sets
// is all that this program adds to libpython.
#include <Python.h>

int main(int argc, char **argv) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.use_frozen_modules = 0;  // Debian's site, which libpython contains
  PyStatus status = PyConfig_SetString(&config, &config.platlibdir, L"lib64");
  if (!PyStatus_Exception(status)) status = PyConfig_SetBytesArgv(&config, argc, argv);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);
  return Py_RunMain();
}
