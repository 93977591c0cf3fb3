// Groups of threads: tiles, reductions, scans, threads that took a branch, threads by label.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "../verify.h"

namespace cg = cooperative_groups;

__global__ void groups(const int *x, int *out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(warp);
    int i = block.thread_rank(), value = x[i], *mine = out + i * 8;
    mine[0] = cg::reduce(warp, value, cg::plus<int>());
    mine[1] = cg::reduce(tile, value, cg::greater<int>());
    mine[2] = cg::exclusive_scan(tile, value);
    mine[3] = cg::inclusive_scan(warp, value);
    if (value > 0) {
        auto positive = cg::coalesced_threads();
        mine[4] = positive.size();
        mine[5] = positive.thread_rank();
    }
    auto labelled = cg::labeled_partition(warp, value & 3);
    mine[6] = labelled.size();
    mine[7] = tile.shfl_xor(value, 5);
}

int main() {
    const int n = 256;
    Array<int> x(n), out(n * 8, -1);
    fill(x, -50, 50);
    groups<<<1, n>>>(x.device, out.device);
    finish();
    out.download();
    for (int i = 0; i < n; i++) {
        int warp = i / 32 * 32, tile = i / 8 * 8;
        int sum = 0, most = x[tile], before = 0, through = 0, positive = 0, rank = 0, labelled = 0;
        for (int j = warp; j < warp + 32; j++) {
            sum += x[j];
            if (j <= i) through += x[j];
            if (x[j] > 0) {
                positive++;
                rank += j < i;
            }
            labelled += (x[j] & 3) == (x[i] & 3);
        }
        for (int j = tile; j < tile + 8; j++) {
            most = x[j] > most ? x[j] : most;
            if (j < i) before += x[j];
        }
        int *mine = &out[i * 8];
        expect("reduce", mine[0], sum);
        expect("reduce, tile", mine[1], most);
        expect("exclusive_scan", mine[2], before);
        expect("inclusive_scan", mine[3], through);
        expect("coalesced_threads, size", mine[4], x[i] > 0 ? positive : -1);
        expect("coalesced_threads, rank", mine[5], x[i] > 0 ? rank : -1);
        expect("labeled_partition", mine[6], labelled);
        expect("shfl_xor", mine[7], x[tile + ((i - tile) ^ 5)]);
    }
    return report();
}
