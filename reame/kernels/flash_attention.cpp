// ggml's flash attention for keys and values in q8_0, which it unpacks anew for each head of each row.

#include <algorithm>

#include "attention.h"
#include "inside_ggml.h"

namespace reame {

constexpr int ITEMS = 4;  // per thread at least, so that none waits long for the others

// The rows of a step by the heads that share a key head, cut into parts that threads take in turn.
struct Parts {
    int rows, heads;    // in all, of one key head
    int row_parts, head_parts, key_heads;

    Parts(int rows, int heads, int key_heads, int threads) : rows(rows), heads(heads), key_heads(key_heads) {
        row_parts = (rows + ROWS - 1) / ROWS;
        const int others = row_parts * key_heads;
        head_parts = std::min(heads, (ITEMS * threads + others - 1) / others);
    }
    int count() const { return row_parts * head_parts * key_heads; }
};

void attend(const ggml_tensor *dst, const Parts &parts, int part) {
    static thread_local std::vector<Query> queries;
    static thread_local std::vector<float> value;
    const ggml_tensor *q = dst->src[0], *k = dst->src[1], *v = dst->src[2], *mask = dst->src[3];
    const auto bound = [](int all, int of, int i) { return int(int64_t(all) * i / of); };
    const int head_part = part % parts.head_parts, row_part = part / parts.head_parts % parts.row_parts;
    const int key_head = part / parts.head_parts / parts.row_parts;
    const int first_row = bound(parts.rows, parts.row_parts, row_part);
    const int rows = bound(parts.rows, parts.row_parts, row_part + 1) - first_row;
    const int first_head = bound(parts.heads, parts.head_parts, head_part);
    const int heads = bound(parts.heads, parts.head_parts, head_part + 1) - first_head;

    float scale;
    memcpy(&scale, dst->op_params, sizeof(scale));
    const Attention a{int(k->ne[1]), int(k->ne[0] / 32), int(v->ne[0] / 32), scale,
                      static_cast<const char *>(k->data) + key_head * k->nb[2],
                      static_cast<const char *>(v->data) + key_head * v->nb[2], k->nb[1], v->nb[1]};
    if (int(queries.size()) < rows * heads) queries.resize(rows * heads);
    const auto head_of = [&](int head) { return key_head * parts.heads + first_head + head; };
    for (int row = 0; row < rows; ++row)
        for (int head = 0; head < heads; ++head) {
            Query &query = queries[row * heads + head];
            query.query.resize(a.key_blocks);
            const size_t place = (first_row + row) * q->nb[1] + head_of(head) * q->nb[2];
            const char *from = static_cast<const char *>(q->data) + place;
            ggml.quantize_row_q8_0(reinterpret_cast<const float *>(from), query.query.data(), q->ne[0]);
            const char *row_mask = static_cast<const char *>(mask->data) + (first_row + row) * mask->nb[1];
            query.start(a, reinterpret_cast<const uint16_t *>(row_mask));
        }
    attend(a, queries.data(), rows, heads, value);
    for (int row = 0; row < rows; ++row)
        for (int head = 0; head < heads; ++head) {
            const Query &query = queries[row * heads + head];
            char *to = static_cast<char *>(dst->data) + (head_of(head) + (first_row + row) * dst->ne[1]) * dst->nb[1];
            const float inverse = query.total == 0.0f ? 0.0f : 1.0f / query.total;
            for (size_t d = 0; d < query.sum.size(); ++d) reinterpret_cast<float *>(to)[d] = query.sum[d] * inverse;
        }
}

bool is_known(const ggml_tensor *dst) {
    const ggml_tensor *q = dst->src[0], *k = dst->src[1], *v = dst->src[2], *mask = dst->src[3], *sinks = dst->src[4];
    float bias, softcap;
    memcpy(&bias, dst->op_params + 1, sizeof(bias));
    memcpy(&softcap, dst->op_params + 2, sizeof(softcap));
    return q->type == GGML_TYPE_F32 && k->type == GGML_TYPE_Q8_0 && v->type == GGML_TYPE_Q8_0 && mask && !sinks &&
           mask->type == GGML_TYPE_F16 && bias == 0 && softcap == 0 && q->ne[3] == 1 && mask->ne[2] == 1 &&
           k->ne[0] % 32 == 0 && v->ne[0] % 32 == 0 && k->ne[2] == v->ne[2] && q->ne[2] % k->ne[2] == 0 &&
           q->nb[0] == sizeof(float) && dst->nb[0] == sizeof(float) && dst->nb[1] == v->ne[0] * sizeof(float);
}

}  // namespace reame

extern "C" void ggml_compute_forward_flash_attn_ext(const ggml_compute_params *params, ggml_tensor *dst) {
    using namespace reame;
    if (!on || params->use_ref || !is_known(dst)) return ggml.ggml_compute_forward_flash_attn_ext(params, dst);
    const ggml_tensor *q = dst->src[0], *k = dst->src[1];
    const Parts parts(int(q->ne[1]), int(q->ne[2] / k->ne[2]), int(k->ne[2]), params->nth);
    share(params, parts.count(), [&](int part) { attend(dst, parts, part); });
}
