// A cooperative launch whose blocks wait for each other between steps.
#include <cooperative_groups.h>

#include "../verify.h"

namespace cg = cooperative_groups;

// Each step reads what another block wrote in the step before.
__global__ void rotate(int *a, int *b, int n, int steps) {
    auto grid = cg::this_grid();
    for (int step = 0; step < steps; step++) {
        int *from = step % 2 ? b : a, *to = step % 2 ? a : b;
        for (int i = grid.thread_rank(); i < n; i += grid.size()) to[i] = from[(i + 97) % n] * 3 + i;
        grid.sync();
    }
}

int main() {
    int n = 1000, steps = 6;
    Array<int> a(n), b(n);
    fill(a, 0, 1000);
    std::vector<int> from = a.host, to(n);
    void *arguments[] = {&a.device, &b.device, &n, &steps};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(rotate), dim3(4), dim3(128),
                                      arguments, 0, 0));
    finish();
    a.download();
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < n; i++)
            to[i] = static_cast<int>(static_cast<unsigned>(from[(i + 97) % n]) * 3u + i);
        std::swap(from, to);
    }
    for (int i = 0; i < n; i++) expect("rotate", a[i], from[i]);
    return report();
}
