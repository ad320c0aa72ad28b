// What these kernels know of libggml-cpu's inside.
//
// The library of the kernels is loaded in front of libggml-cpu and defines two of its functions,
// ggml_compute_forward_mul_mat and ggml_compute_forward_flash_attn_ext. What they do not know they hand to ggml's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

extern "C" {
// As in ggml-cpu-impl.h; part of no interface, so the library's name has the version that it was built for.
struct ggml_compute_params {
    int ith, nth;
    size_t wsize;
    void *wdata;
    struct ggml_threadpool *threadpool;
    bool use_ref;
};

}

namespace reame {

// What is called in libggml-cpu, by its names there.
struct Ggml {
    void (*ggml_compute_forward_mul_mat)(const ggml_compute_params *, ggml_tensor *);
    void (*ggml_compute_forward_flash_attn_ext)(const ggml_compute_params *, ggml_tensor *);
    void (*ggml_barrier)(ggml_threadpool *);
    void (*ggml_threadpool_chunk_set)(ggml_threadpool *, int);
    int (*ggml_threadpool_chunk_add)(ggml_threadpool *, int);
    void (*quantize_row_q8_0)(const float *, void *, int64_t);
    void (*quantize_row_q8_1)(const float *, void *, int64_t);
    void (*quantize_row_q8_K)(const float *, void *, int64_t);
};
extern Ggml ggml;
extern int on;  // 0: all is handed to ggml

// The next part of `count` for this thread of the team, as ggml gives them out: the first is that of its number.
template <class Work>
void share(const ggml_compute_params *params, int count, Work work) {
    if (params->ith == 0) ggml.ggml_threadpool_chunk_set(params->threadpool, params->nth);
    ggml.ggml_barrier(params->threadpool);
    for (int part = params->ith; part < count; part = ggml.ggml_threadpool_chunk_add(params->threadpool, 1)) work(part);
}

}  // namespace reame
