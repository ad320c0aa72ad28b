// Q4_K, Q5_K and Q6_K weights times q8_K activations: super-blocks of 256.
//
// Integers are summed in any order, as that changes nothing; floats in the order of ggml's AVX2 vec_dot of the type, so
// that each result has the bits that a step of one row gives, however many rows share the step.
#pragma once

#include <cmath>
#include <cstring>

#include "inside_ggml.h"
#include "simd.h"

namespace reame {

constexpr int K_SIZE = 256;

struct BlockQ4K { uint16_t d, dmin; uint8_t scales[12]; uint8_t qs[K_SIZE / 2]; };
struct BlockQ5K { uint16_t d, dmin; uint8_t scales[12]; uint8_t qh[K_SIZE / 8]; uint8_t qs[K_SIZE / 2]; };
struct BlockQ6K { uint8_t ql[K_SIZE / 2]; uint8_t qh[K_SIZE / 4]; int8_t scales[K_SIZE / 16]; uint16_t d; };
struct BlockQ8K { float d; int8_t qs[K_SIZE]; int16_t bsums[K_SIZE / 16]; };
static_assert(sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210 && sizeof(BlockQ8K) == 292);

// The head of a block whose scales and mins have six bits. `scales`: each one twice, as products are added in pairs.
struct HeadWithMins {
    float d, dmin;
    alignas(32) uint32_t scales[8];
    alignas(16) int16_t mins[8];

    template <class Block>
    explicit HeadWithMins(const Block &x) : d(half(x.d)), dmin(half(x.dmin)) {
        uint32_t u[4];
        memcpy(u, x.scales, 12);
        u[3] = ((u[2] >> 4) & 0x0f0f0f0f) | (((u[1] >> 6) & 0x03030303) << 4);
        const uint32_t low = u[1] & 0x3f3f3f3f;
        u[1] = (u[2] & 0x0f0f0f0f) | (((u[0] >> 6) & 0x03030303) << 4);
        u[2] = low;
        u[0] &= 0x3f3f3f3f;
        const __m256i all = _mm256_cvtepu8_epi16(_mm_set_epi32(u[3], u[2], u[1], u[0]));
        const __m256i wide = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(all));
        store(scales, _mm256_or_si256(wide, _mm256_slli_epi32(wide, 16)));
        _mm_store_si128(reinterpret_cast<__m128i *>(mins), _mm256_extracti128_si256(all, 1));
    }
    __m256i scale(int j) const { return _mm256_set1_epi32(scales[j]); }
    __m256i start(const BlockQ8K &) const { return _mm256_setzero_si256(); }
    __m128i min_products(const BlockQ8K &prepared) const {
        return _mm_madd_epi16(load_half(mins), load_half(prepared.bsums));
    }
};

struct Q4K {
    using Block = BlockQ4K;
    static constexpr bool has_mins = true;

    using Head = HeadWithMins;
    struct Mins {
        __m128 sum = _mm_setzero_ps();
        void add(const Head &w, const BlockQ8K &y) {
            sum = _mm_fmadd_ps(_mm_set1_ps(-y.d * w.dmin), _mm_cvtepi32_ps(w.min_products(y)), sum);
        }
        float total() const { return sum_lanes(sum); }
    };

    static __m256i quants(const Block &x, int j) {  // 0 to 15
        const __m256i bits = load(x.qs + 32 * (j / 2));
        return _mm256_and_si256(j % 2 ? _mm256_srli_epi16(bits, 4) : bits, _mm256_set1_epi8(15));
    }
};

struct Q5K {
    using Block = BlockQ5K;
    static constexpr bool has_mins = true;

    using Head = HeadWithMins;
    struct Mins {
        float sum = 0;
        void add(const Head &w, const BlockQ8K &y) {
            const __m128i two = _mm_hadd_epi32(w.min_products(y), _mm_setzero_si128());
            sum = std::fma(-y.d * w.dmin, float(_mm_cvtsi128_si32(_mm_hadd_epi32(two, two))), sum);
        }
        float total() const { return sum; }
    };

    static __m256i quants(const Block &x, int j) {  // 0 to 31
        const __m256i bits = load(x.qs + 32 * (j / 2));
        const __m256i low = _mm256_and_si256(j % 2 ? _mm256_srli_epi16(bits, 4) : bits, _mm256_set1_epi8(15));
        const __m256i fifth = _mm256_slli_epi16(_mm256_srli_epi16(load(x.qh), j), 4);
        return _mm256_or_si256(low, _mm256_and_si256(fifth, _mm256_set1_epi8(16)));
    }
};

struct Q6K {
    using Block = BlockQ6K;
    static constexpr bool has_mins = false;

    struct Head {
        float d;
        alignas(32) uint32_t scales[16];
        alignas(32) int16_t plain[16];

        explicit Head(const Block &x) : d(half(x.d)) {
            const __m256i all = _mm256_cvtepi8_epi16(load_half(x.scales)), low = _mm256_set1_epi32(0xffff);
            const __m256i first = _mm256_and_si256(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(all)), low);
            const __m256i second = _mm256_and_si256(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(all, 1)), low);
            store(plain, all);
            store(scales, _mm256_or_si256(first, _mm256_slli_epi32(first, 16)));
            store(scales + 8, _mm256_or_si256(second, _mm256_slli_epi32(second, 16)));
        }
        __m256i scale(int j) const {
            return _mm256_blend_epi32(_mm256_set1_epi32(scales[2 * j]), _mm256_set1_epi32(scales[2 * j + 1]), 0xf0);
        }
        __m256i start(const BlockQ8K &y) const {  // the quants are 32 more than what they stand for
            const __m256i excess = _mm256_slli_epi32(_mm256_madd_epi16(load(y.bsums), load(plain)), 5);
            return _mm256_sub_epi32(_mm256_setzero_si256(), excess);
        }
    };
    struct Mins {
        void add(const Head &, const BlockQ8K &) {}
        float total() const { return 0; }
    };

    static __m256i quants(const Block &x, int j) {  // 0 to 63
        const __m256i bits = load(x.ql + 64 * (j / 4) + 32 * (j % 2)), high = load(x.qh + 32 * (j / 4));
        const __m256i low = _mm256_and_si256(j % 4 < 2 ? bits : _mm256_srli_epi16(bits, 4), _mm256_set1_epi8(15));
        const __m256i placed = j % 4 == 0   ? _mm256_slli_epi16(high, 4)
                               : j % 4 == 1 ? _mm256_slli_epi16(high, 2)
                               : j % 4 == 2 ? high
                                            : _mm256_srli_epi16(high, 2);
        return _mm256_or_si256(low, _mm256_and_si256(placed, _mm256_set1_epi8(48)));
    }
};

// What `mul_mat.cpp` needs of a type of weights, see there.
template <class Q>
struct KQuant {
    using Weight = typename Q::Block;
    using Activation = BlockQ8K;
    static constexpr int block = K_SIZE;
    static constexpr auto quantize = &Ggml::quantize_row_q8_K;
    struct Column {
        const Activation *y;

        // Sums of 32 in place of those of 16, as mins are multiplied with these. Once for each activation.
        static void prepare(Activation *y, int blocks) {
            for (int i = 0; Q::has_mins && i < blocks; ++i) {
                const __m256i sums = load(y[i].bsums);
                const __m128i pairs = _mm_hadd_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
                _mm_storeu_si128(reinterpret_cast<__m128i *>(y[i].bsums), pairs);
            }
        }
        static constexpr int floats = 0;
        Column(const Activation *prepared, int, float *) : y(prepared) {}
    };
    struct Unpacked {
        uint8_t bytes[K_SIZE];
        typename Q::Head head;

        explicit Unpacked(const Weight &x) : head(x) {
            for (int j = 0; j < 8; ++j) store(bytes + 32 * j, Q::quants(x, j));
        }
        __m256i quants(int j) const { return load(bytes + 32 * j); }
    };
    struct Packed {  // unpacked while it is multiplied
        const Weight &x;
        typename Q::Head head;

        explicit Packed(const Weight &weight) : x(weight), head(weight) {}
        __m256i quants(int j) const { return Q::quants(x, j); }
    };

    template <int N>
    struct Sums {
        __m256 total[N];
        typename Q::Mins mins[N];

        Sums() {
            for (int c = 0; c < N; ++c) total[c] = _mm256_setzero_ps();
        }
        template <class Row>
        void add(const Row &w, const Column *columns, int i) {
            __m256i sum[N];
            for (int c = 0; c < N; ++c) sum[c] = w.head.start(columns[c].y[i]);
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j) {
                const __m256i quants = w.quants(j), scale = w.head.scale(j);
                for (int c = 0; c < N; ++c) {
                    const __m256i products = _mm256_maddubs_epi16(quants, load(columns[c].y[i].qs + 32 * j));
                    sum[c] = add_products(sum[c], scale, products);
                    asm("" : "+x"(sum[c]));  // else GCC 12 adds later and keeps all products in memory
                }
            }
            for (int c = 0; c < N; ++c) {
                const __m256 d = _mm256_set1_ps(columns[c].y[i].d * w.head.d);
                total[c] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sum[c]), total[c]);
                mins[c].add(w.head, columns[c].y[i]);
            }
        }
        float value(int c) const { return sum_lanes(total[c]) + mins[c].total(); }
    };
};

}  // namespace reame
