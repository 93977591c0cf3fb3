"""The text that ``tessera cc --help`` prints."""

HELP = """\
Usage: tessera cc [OPTIONS] FILES...

Compile CUDA C++ with clang and headers of Tessera's own; link with libcudart.so.12. Options are
nvcc's, in its short and long spelling:

  phase:  (none)        compile and link            -o, --output-file FILE
          -c  -dc       objects; -dc: with separate compilation of device code (-rdc=true -c)
          -dlink  -lib  link device code only; make a static library       -shared
          -ptx -fatbin  PTX of one architecture; a fat binary              -E  -M
  target: -arch=sm_90   or compute_90, all, all-major; default sm_80
          -gencode arch=compute_90,code=compute_90     (may be repeated)
  source: -std=c++17  -x cu|c++|c  -I DIR  -isystem DIR  -include FILE  -D NAME[=VALUE]  -U NAME
  code:   -O0..-O3  -g  -G  -lineinfo  -rdc=true  -use_fast_math  -ftz=true  -fmad=false
          --default-stream=per-thread
  link:   -L DIR  -l NAME  -cudart shared|none  -Xlinker OPTION
  tools:  -Xcompiler OPTION,...  -ccbin CLANG|DIR  -v  --dryrun  --keep  --keep-dir DIR
          -MD -MMD -MP -MF FILE -MT NAME  -optf FILE  -h, --help  -V, --version
          --include-dir         print where the headers are, for other compilers
          --cuda-home           print a folder with bin/nvcc, include and lib64, for CUDA_HOME

Like nvcc, it reads options from NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS.

Options that concern NVIDIA's assembler and linker alone (-Xptxas, -Xnvlink, -code, -maxrregcount,
-prec-div, -prec-sqrt ...) are accepted and have no effect. -cubin and -cudart static are refused.
Run the program with: tessera run --board h100-80gb -- ./program
"""
