// Attention over keys and values in q8_0, with the online softmax of ggml's flash attention (arXiv 2112.05682).
//
// Heads that share a key head, and some rows of the step, go over the cells together: a key is read and a value
// unpacked once for all of them. What a row's head gets depends on no other: floats are summed in the order of cells.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "simd.h"

namespace reame {

struct BlockQ80 { uint16_t d; int8_t qs[32]; };
static_assert(sizeof(BlockQ80) == 34);

constexpr uint16_t MASKED = 0xfc00;  // minus infinity in half precision
constexpr int ROWS = 4;              // of a step that go over the cells together

struct Attention {
    int cells, key_blocks, value_blocks;  // blocks of a key and of a value of one head
    float scale;
    const char *keys, *values;  // of the one key head
    size_t key_stride, value_stride;
};

// One row's one head on its way over the cells. `query`: its blocks, as ggml quantizes them.
struct Query {
    const uint16_t *mask;
    std::vector<BlockQ80> query;
    std::vector<float> scales, sum;
    float total = 0, highest = -INFINITY;

    void start(const Attention &a, const uint16_t *row_mask) {
        mask = row_mask, total = 0, highest = -INFINITY;
        scales.resize(a.key_blocks);
        for (int i = 0; i < a.key_blocks; ++i) scales[i] = half(query[i].d);
        sum.assign(a.value_blocks * 32, 0.0f);
    }

    float product(const Attention &a, const BlockQ80 *key) const {
        __m256 total_of_blocks = _mm256_setzero_ps();
        for (int i = 0; i < a.key_blocks; ++i) {
            const __m256i k = load(key[i].qs), q = load(query[i].qs);
            const __m256i pairs = _mm256_maddubs_epi16(_mm256_sign_epi8(k, k), _mm256_sign_epi8(q, k));
            const __m256i sums = add_products(_mm256_setzero_si256(), _mm256_set1_epi16(1), pairs);
            const __m256 d = _mm256_set1_ps(half(key[i].d) * scales[i]);
            total_of_blocks = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums), total_of_blocks);
        }
        return sum_lanes(total_of_blocks);
    }

    void add(const Attention &a, float score, const float *value) {
        float weight = 1.0f;
        const int size = a.value_blocks * 32;
        if (score > highest) {
            const float shrink = expf(highest - score);
            for (int d = 0; d < size; d += 8)
                _mm256_storeu_ps(&sum[d], _mm256_mul_ps(_mm256_loadu_ps(&sum[d]), _mm256_set1_ps(shrink)));
            total = std::fma(total, shrink, weight), highest = score;
        } else {
            weight = expf(score - highest);
            total += weight;
        }
        const __m256 w = _mm256_set1_ps(weight);
        for (int d = 0; d < size; d += 8)
            _mm256_storeu_ps(&sum[d], _mm256_fmadd_ps(_mm256_loadu_ps(value + d), w, _mm256_loadu_ps(&sum[d])));
    }
};

inline void unpack(const BlockQ80 *from, int blocks, float *to) {
    for (int i = 0; i < blocks; ++i) {
        const __m256 d = _mm256_set1_ps(half(from[i].d));
        for (int j = 0; j < 32; j += 8) {
            const __m256i eight = _mm256_cvtepi8_epi32(_mm_loadu_si64(from[i].qs + j));
            _mm256_storeu_ps(to + 32 * i + j, _mm256_mul_ps(_mm256_cvtepi32_ps(eight), d));
        }
    }
}

// All queries over all cells; those of one row, `heads` of them, lie one behind the other and have the row's mask.
inline void attend(const Attention &a, Query *queries, int rows, int heads, std::vector<float> &value) {
    value.resize(a.value_blocks * 32);
    for (int cell = 0; cell < a.cells; ++cell) {
        const auto *key = reinterpret_cast<const BlockQ80 *>(a.keys + cell * a.key_stride);
        const auto *packed = reinterpret_cast<const BlockQ80 *>(a.values + cell * a.value_stride);
        bool unpacked = false;
        for (int row = 0; row < rows; ++row) {
            const uint16_t bias = queries[row * heads].mask[cell];
            if (bias == MASKED) continue;
            if (!unpacked) unpack(packed, a.value_blocks, value.data());
            unpacked = true;
            for (int head = 0; head < heads; ++head) {
                Query &query = queries[row * heads + head];
                query.add(a, std::fma(query.product(a, key), a.scale, half(bias)), value.data());
            }
        }
    }
}

}  // namespace reame
