// Q4_1 weights times q8_1 activations: blocks of 32, each with a scale and a smallest value of its own.
//
// Floats are summed in the order of ggml's AVX2 vec_dot, see k_quants.h.
#pragma once

#include "inside_ggml.h"
#include "simd.h"

namespace reame {

struct BlockQ41 { uint16_t d, m; uint8_t qs[16]; };
struct BlockQ81 { uint16_t d, s; int8_t qs[32]; };
static_assert(sizeof(BlockQ41) == 20 && sizeof(BlockQ81) == 36);

// What `mul_mat.cpp` needs of a type of weights, see there.
struct Q41 {
    using Weight = BlockQ41;
    using Activation = BlockQ81;
    static constexpr int block = 32;
    static constexpr auto quantize = &Ggml::quantize_row_q8_1;
    struct Column {
        const Activation *y;
        const float *scales;  // d and s of each block: to widen them takes as long as a block's products

        static void prepare(Activation *, int) {}
        static constexpr int floats = 2;
        Column(const Activation *prepared, int blocks, float *room) : y(prepared), scales(room) {
            for (int i = 0; i < blocks; ++i) room[2 * i] = half(y[i].d), room[2 * i + 1] = half(y[i].s);
        }
    };
    struct Unpacked {
        __m256i quants;
        __m128 scales;  // d and m, as they lie in a column's

        explicit Unpacked(const Weight &x) : scales(_mm_cvtph_ps(_mm_loadu_si32(&x))) {
            const __m128i bits = load_half(x.qs);
            quants = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bits, 4), bits), _mm256_set1_epi8(15));
        }
    };
    using Packed = Unpacked;

    template <int N>
    struct Sums {
        __m256 total[N];
        __m128 mins[N];  // in the second lane

        Sums() {
            for (int c = 0; c < N; ++c) total[c] = _mm256_setzero_ps(), mins[c] = _mm_setzero_ps();
        }
        void add(const Unpacked &w, const Column *columns, int i) {
            for (int c = 0; c < N; ++c) {
                const __m128 scales = _mm_castsi128_ps(_mm_loadu_si64(columns[c].scales + 2 * i));
                const __m256i pairs = _mm256_maddubs_epi16(w.quants, load(columns[c].y[i].qs));
                const __m256i sums = add_products(_mm256_setzero_si256(), _mm256_set1_epi16(1), pairs);
                const __m256 d = _mm256_broadcastss_ps(_mm_mul_ss(w.scales, scales));
                total[c] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums), total[c]);
                mins[c] = _mm_fmadd_ps(w.scales, scales, mins[c]);
            }
        }
        float value(int c) const { return sum_lanes(total[c]) + _mm_cvtss_f32(_mm_movehdup_ps(mins[c])); }
    };
};

}  // namespace reame
