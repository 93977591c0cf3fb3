// A function and a variable that kernels of another file use, and the program's main function.
#include "shared.h"

#include "check.h"

__device__ int counter = 5;
__device__ int shared_function(int x) { return x + counter; }

int check_accuracy(int count, char** names);
int check_sums();
int check_products();
int check_random_numbers();
int check_transforms();
int check_reductions();
int check_sorting();
int check_atomics();
int check_groups();
int check_stages();
int check_memory();
int check_calls();
int check_tensor_cores();
int check_formats();

int main(int argc, char** argv) {
  return check_accuracy(argc - 1, argv + 1) + check_sums() + check_products() +
         check_random_numbers() + check_transforms() + check_reductions() + check_sorting() +
         check_atomics() + check_groups() + check_stages() + check_memory() + check_calls() +
         check_tensor_cores() + check_formats();
}
