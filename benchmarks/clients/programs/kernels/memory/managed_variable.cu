// A managed variable, which host and kernel access by its name.
#include "../verify.h"

__managed__ float values[64];

__global__ void change(int add) { values[threadIdx.x] = values[threadIdx.x] * 2 + add; }

int main() {
    for (int i = 0; i < 64; i++) values[i] = i;
    change<<<1, 64>>>(5);
    finish();
    for (int i = 0; i < 64; i++) expect("change", values[i], 2 * i + 5);
    return report();
}
