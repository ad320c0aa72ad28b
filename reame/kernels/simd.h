// What the kernels share: AVX2 helpers and the layouts of ggml's blocks (ggml-common.h), which are a file format.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace reame {

inline float half(uint16_t bits) { return _cvtsh_ss(bits); }
inline __m256i load(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }
inline __m128i load_half(const void *from) { return _mm_loadu_si128(static_cast<const __m128i *>(from)); }
inline void store(void *to, __m256i value) { _mm256_storeu_si256(static_cast<__m256i *>(to), value); }

// The sum of eight lanes, added in the order of ggml's hsum_float_8.
inline float sum_lanes(__m256 x) {
    __m128 four = _mm_add_ps(_mm256_extractf128_ps(x, 1), _mm256_castps256_ps128(x));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

// The sum of four lanes, in the order of ggml's vec_dot_q4_K.
inline float sum_lanes(__m128 x) {
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

// sum + the products of int16, added in pairs.
inline __m256i add_products(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpwssd_epi32(sum, a, b);
#elif defined(__AVXVNNI__)
    return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

}  // namespace reame
