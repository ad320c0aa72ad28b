// How `engine/kernels.py` connects the kernels with libggml-cpu.

#include "inside_ggml.h"

namespace reame {
Ggml ggml{};
int on = 0;
}  // namespace reame

#define PLACE(name) {#name, reinterpret_cast<void **>(&reame::ggml.name)}

extern "C" {
// Each name's address in libggml-cpu has to be put into its place, before anything is computed.
struct reame_needed {
    const char *name;
    void **place;
} reame_needed[] = {
    PLACE(ggml_compute_forward_mul_mat), PLACE(ggml_compute_forward_flash_attn_ext), PLACE(ggml_barrier),
    PLACE(ggml_threadpool_chunk_set), PLACE(ggml_threadpool_chunk_add), PLACE(quantize_row_q8_0),
    PLACE(quantize_row_q8_1), PLACE(quantize_row_q8_K), {nullptr, nullptr},
};

void reame_switch(int on) { reame::on = on; }
}
